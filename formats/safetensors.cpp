#include "formats/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/limits.h"
#include "formats/json_walk.h"

namespace vrampool::formats {
namespace {

struct SafetensorsType {
  std::string_view name;
  std::uint32_t bits;
  wire::Dtype dtype;
};
// Types the pool has no word for keep their own name and count as unknown or, below a byte, as quantized.
constexpr std::array kTypes{
    SafetensorsType{"BOOL", 8, wire::Dtype::boolean},
    SafetensorsType{"U8", 8, wire::Dtype::u8},
    SafetensorsType{"I8", 8, wire::Dtype::i8},
    SafetensorsType{"U16", 16, wire::Dtype::u16},
    SafetensorsType{"I16", 16, wire::Dtype::i16},
    SafetensorsType{"U32", 32, wire::Dtype::u32},
    SafetensorsType{"I32", 32, wire::Dtype::i32},
    SafetensorsType{"U64", 64, wire::Dtype::u64},
    SafetensorsType{"I64", 64, wire::Dtype::i64},
    SafetensorsType{"F16", 16, wire::Dtype::f16},
    SafetensorsType{"BF16", 16, wire::Dtype::bf16},
    SafetensorsType{"F32", 32, wire::Dtype::f32},
    SafetensorsType{"F64", 64, wire::Dtype::f64},
    SafetensorsType{"F8_E4M3", 8, wire::Dtype::f8_e4m3},
    SafetensorsType{"F8_E5M2", 8, wire::Dtype::f8_e5m2},
    SafetensorsType{"F8_E8M0", 8, wire::Dtype::unknown},
    SafetensorsType{"F8_E4M3FNUZ", 8, wire::Dtype::unknown},
    SafetensorsType{"F8_E5M2FNUZ", 8, wire::Dtype::unknown},
    SafetensorsType{"C64", 64, wire::Dtype::unknown},
    SafetensorsType{"F4", 4, wire::Dtype::quantized},
    SafetensorsType{"F6_E2M3", 6, wire::Dtype::quantized},
    SafetensorsType{"F6_E3M2", 6, wire::Dtype::quantized},
};

// The grammar of the header: {"name": {"dtype": s, "shape": [n...], "data_offsets": [n, n], ...}, "__metadata__": {s:
// s}}. Fields that we do not know are passed over, as the library does.
class HeaderSink final : public JsonSink {
 public:
  HeaderSink(std::string_view file, std::uint64_t data_offset) : file_(file), data_offset_(data_offset) {}

  std::vector<TensorEntry> tensors;

  void object_begin() override {
    if (skipping()) return enter();
    if (depth_ == 1) begin_tensor();
    if (depth_ >= 2) return must_not_be("an object");
    enter();
  }
  void object_end() override {
    leave();
    if (depth_ == 1 && !skipping() && !metadata_) finish_tensor();
  }
  void array_begin() override {
    if (skipping()) return enter();
    if (depth_ != 2 || metadata_ || list_ != nullptr) return must_not_be("an array");
    if (field_ == kShape) list_ = &entry_.shape;
    if (field_ == kOffsets) list_ = &offsets_;
    if (list_ == nullptr) return must_not_be("an array");
    enter();
  }
  void array_end() override {
    leave();
    if (!skipping()) list_ = nullptr;
  }
  void key(std::string_view text) override {
    if (depth_ > 2) return;  // inside an unknown field
    if (depth_ == 1) {
      entry_ = {};
      entry_.name = text;
      metadata_ = text == "__metadata__";
    } else if (!metadata_) {
      choose_field(text);
    }
  }
  void string(std::string_view text) override {
    if (skipping()) return;
    if (depth_ == 2 && metadata_) return;
    if (depth_ != 2 || field_ != kDtype) return must_not_be("a string");
    entry_.type_name = text;
  }
  void whole_number(std::uint64_t value) override {
    if (skipping()) return;
    if (list_ == nullptr) return must_not_be("a number");
    if (list_->size() >= (field_ == kShape ? kTensorDimensionsMax : 2)) return too_long();
    list_->push_back(value);
  }
  void other(std::string_view kind) override {
    if (!skipping()) must_not_be(kind);
  }

 private:
  enum Field : unsigned { kNone = 0, kDtype = 1, kShape = 2, kOffsets = 4, kUnknown = 8 };

  // Inside the value of an unknown field: everything deeper, and the field's own value.
  bool skipping() const { return depth_ >= 2 && field_ == kUnknown; }
  void enter() { ++depth_; }
  void leave() { --depth_; }

  void begin_tensor() {
    field_ = kNone;
    seen_ = 0;
    offsets_.clear();
    if (tensors.size() >= kTensorsPerSegmentMax) fail("more than {} tensors", kTensorsPerSegmentMax);
  }
  void choose_field(std::string_view text) {
    field_ = text == "dtype" ? kDtype : text == "shape" ? kShape : text == "data_offsets" ? kOffsets : kUnknown;
    if (field_ != kUnknown && (seen_ & field_) != 0) fail("tensor \"{}\" has {} twice", shown(entry_.name), text);
    seen_ |= field_;
  }
  void must_not_be(std::string_view kind) {
    if (depth_ == 0) return fail("the header is {} instead of an object", kind);
    fail("\"{}\" has {} where the format has none", shown(entry_.name), kind);
  }
  void too_long() {
    if (field_ == kShape)
      return fail("tensor \"{}\" has more than {} dimensions", shown(entry_.name), kTensorDimensionsMax);
    fail("tensor \"{}\" has more than two data_offsets", shown(entry_.name));
  }
  void finish_tensor() {
    const auto name = shown(entry_.name);
    if (seen_ == 0 || (seen_ & (kDtype | kShape | kOffsets)) != (kDtype | kShape | kOffsets) || offsets_.size() != 2)
      return fail("tensor \"{}\" lacks dtype, shape or its two data_offsets", name);
    if (offsets_[1] < offsets_[0])
      return fail("tensor \"{}\": data_offsets [{}, {}] run backwards", name, offsets_[0], offsets_[1]);
    if (__builtin_add_overflow(offsets_[0], data_offset_, &entry_.file_offset))
      return fail("tensor \"{}\": data_offsets [{}, {}] are out of range", name, offsets_[0], offsets_[1]);
    entry_.bytes = offsets_[1] - offsets_[0];
    check_type();
    tensors.push_back(std::move(entry_));
    entry_ = {};
  }
  void check_type() {
    const auto name = shown(entry_.name);
    const auto* type =
        std::find_if(kTypes.begin(), kTypes.end(), [&](const auto& t) { return t.name == entry_.type_name; });
    if (type == kTypes.end()) {
      failure =
          error(VP_UNSUPPORTED, "{}: tensor \"{}\": unknown dtype \"{}\"", shown(file_), name, shown(entry_.type_name));
      return;
    }
    entry_.dtype = type->dtype;
    const auto elements = element_count(entry_.shape);
    std::uint64_t bits = 0;
    if (!elements || __builtin_mul_overflow(*elements, type->bits, &bits))
      return fail("tensor \"{}\": its shape is larger than 64 bits can count", name);
    if (bits % 8 != 0 || bits / 8 != entry_.bytes)
      return fail("tensor \"{}\": shape and dtype make {} bits, data_offsets give {} bytes", name, bits, entry_.bytes);
  }
  template <class... Args>
  void fail(fmt::format_string<Args...> text, Args&&... args) {
    if (!failure) failure = error(VP_CORRUPT, "{}: {}", shown(file_), fmt::format(text, std::forward<Args>(args)...));
  }

  std::string_view file_;
  std::uint64_t data_offset_;
  int depth_ = 0;
  bool metadata_ = false;
  Field field_ = kNone;
  unsigned seen_ = 0;
  TensorEntry entry_;
  std::vector<std::uint64_t> offsets_;
  std::vector<std::uint64_t>* list_ = nullptr;
};

Status check_no_holes(const TensorTable& table, std::string_view file_name) {
  std::uint64_t end = table.data_offset;
  for (const auto& t : table.tensors) {
    if (t.file_offset != end)
      return error(VP_CORRUPT, "{}: a hole of {} bytes before tensor \"{}\"; the format allows none", shown(file_name),
                   t.file_offset - end, t.name);
    end += t.bytes;
  }
  if (end == table.file_bytes) return {};
  return error(VP_CORRUPT, "{}: {} bytes behind the last tensor; the format allows none", shown(file_name),
               table.file_bytes - end);
}

Result<std::uint64_t> header_bytes(std::span<const std::byte> prefix, std::uint64_t file_bytes, std::string_view file) {
  if (prefix.size() >= 8 && std::memcmp(prefix.data(), "version ", 8) == 0)
    return error(VP_CORRUPT, "{}: this is a Git LFS pointer, not the model; run git lfs pull", shown(file));
  std::uint64_t n = 0;
  for (int i = 7; i >= 0; --i) n = n << 8 | std::to_integer<std::uint64_t>(prefix[static_cast<std::size_t>(i)]);
  if (n > kSafetensorsHeaderBytesMax)
    return error(VP_CORRUPT, "{}: a header of {} bytes is larger than the {} allowed; this is no safetensors file",
                 shown(file), n, kSafetensorsHeaderBytesMax);
  if (n > file_bytes - 8)
    return error(VP_CORRUPT, "{}: the header of {} bytes ends behind the file's {} bytes; the file was cut short",
                 shown(file), n, file_bytes);
  return n;
}

}  // namespace

Result<ParseStep> parse_safetensors(std::span<const std::byte> prefix, std::uint64_t file_bytes,
                                    std::string_view file_name) {
  VP_ASSERT(prefix.size() <= file_bytes);
  if (file_bytes < 8)
    return error(VP_CORRUPT, "{}: {} bytes are too short for a safetensors file", shown(file_name), file_bytes);
  if (prefix.size() < 8) return ParseStep{NeedBytes{std::min<std::uint64_t>(file_bytes, 64 * 1024)}};
  VP_TRY(json_bytes, header_bytes(prefix, file_bytes, file_name));
  TensorTable table{"safetensors", file_bytes, 8 + json_bytes, std::nullopt, {}};
  if (prefix.size() < table.data_offset) return ParseStep{NeedBytes{table.data_offset}};
  HeaderSink sink(file_name, table.data_offset);
  VP_CHECK(walk_json(prefix.subspan(8, json_bytes), 32, fmt::format("{}: header", shown(file_name)), sink));
  table.tensors = std::move(sink.tensors);
  VP_CHECK(check_and_sort(table, file_name));
  VP_CHECK(check_no_holes(table, file_name));
  return ParseStep{std::move(table)};
}

}  // namespace vrampool::formats
