#include "formats/gguf.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/limits.h"

namespace vrampool::formats {
namespace {

enum ValueType : std::uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64,
  kValueTypes
};
constexpr std::array<std::uint32_t, kValueTypes> kValueBytes{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
constexpr int kArrayDepthMax = 4;
constexpr std::uint64_t kKeyBytesMax = 65535;
constexpr std::uint64_t kAlignmentMax = 1ull << 24;

// Reads the header front to back. Every reader returns false when it cannot go on: then either `failure` says why, or
// the prefix is too short and `want` says how many bytes would help.
class HeaderReader {
 public:
  HeaderReader(std::span<const std::byte> prefix, std::uint64_t file_bytes, std::string_view file)
      : prefix_(prefix), file_bytes_(file_bytes), file_(file) {
    table.format = "gguf";
    table.file_bytes = file_bytes;
  }

  TensorTable table;
  std::optional<Error> failure;
  std::uint64_t want = 0;

  bool read() {
    std::uint64_t tensors = 0;
    std::uint64_t keys = 0;
    if (!read_preamble(tensors, keys)) return false;
    for (std::uint64_t i = 0; i < keys; ++i)
      if (!read_pair()) return false;
    for (std::uint64_t i = 0; i < tensors; ++i)
      if (!read_tensor()) return false;
    return place_tensors();
  }

 private:
  bool take(std::uint64_t n, const std::byte*& at) {
    if (!reserve(n)) return false;
    if (pos_ + n > prefix_.size()) return want = pos_ + n, false;
    at = prefix_.data() + pos_;
    pos_ += n;
    return true;
  }
  // The next n bytes are inside the file and inside what a header may have.
  bool reserve(std::uint64_t n) {
    if (n > file_bytes_ - pos_)
      return fail("the header ends behind the file's {} bytes; the file was cut short", file_bytes_);
    if (n > kGgufHeaderBytesMax || pos_ > kGgufHeaderBytesMax - n)
      return fail("the header is larger than the {} bytes allowed", kGgufHeaderBytesMax);
    return true;
  }
  bool skip(std::uint64_t n) { return reserve(n) && (pos_ += n, true); }
  template <class T>
  bool number(T& value) {
    const std::byte* at = nullptr;
    if (!take(sizeof(T), at)) return false;
    value = 0;
    for (std::size_t i = sizeof(T); i-- > 0;)
      value = static_cast<T>(static_cast<std::uint64_t>(value) << 8 | std::to_integer<std::uint64_t>(at[i]));
    return true;
  }
  bool text(std::uint64_t bytes_max, const char* what, std::string_view& out) {
    std::uint64_t n = 0;
    const std::byte* at = nullptr;
    if (!number(n)) return false;
    if (n > bytes_max) return fail("{} of {} bytes is longer than the {} allowed", what, n, bytes_max);
    if (!take(n, at)) return false;
    out = {reinterpret_cast<const char*>(at), static_cast<std::size_t>(n)};
    return true;
  }

  bool read_preamble(std::uint64_t& tensors, std::uint64_t& keys) {
    const std::byte* magic = nullptr;
    std::uint32_t version = 0;
    if (!take(4, magic) || !check_magic(magic) || !number(version)) return false;
    if (version == 0x02000000 || version == 0x03000000)
      return unsupported("is a big-endian GGUF file; convert it first");
    if (version < 2 || version > 3)
      return unsupported(fmt::format("has GGUF version {}; versions 2 and 3 can be read", version));
    if (!number(tensors) || !number(keys)) return false;
    if (tensors > kTensorsPerSegmentMax)
      return fail("{} tensors are more than the {} allowed", tensors, kTensorsPerSegmentMax);
    if (keys > kGgufMetadataKeysMax)
      return fail("{} metadata keys are more than the {} allowed", keys, kGgufMetadataKeysMax);
    return true;
  }
  bool check_magic(const std::byte* magic) {
    if (std::memcmp(magic, "GGUF", 4) == 0) return true;
    if (std::memcmp(magic, "vers", 4) == 0) return fail("this is a Git LFS pointer, not the model; run git lfs pull");
    return fail("wrong magic; this is no GGUF file");
  }

  bool read_pair() {
    std::string_view key;
    std::uint32_t type = 0;
    if (!text(kKeyBytesMax, "a metadata key", key) || !number(type)) return false;
    if (type == kU16 && key == "split.no") return number(split_index_);
    if (type == kU16 && key == "split.count") return number(split_count_);
    if (type == kI32 && key == "split.tensors.count") return number(split_tensors_);
    if (type == kU32 && key == "general.alignment") return number(alignment_) && check_alignment();
    if (key == "general.alignment") return fail("general.alignment is not a 32-bit number");
    return skip_value(type, key, 0);
  }
  bool check_alignment() {
    if (alignment_ >= 8 && alignment_ <= kAlignmentMax && (alignment_ & (alignment_ - 1)) == 0) return true;
    return fail("general.alignment is {}; a power of two from 8 to {} is expected", alignment_, kAlignmentMax);
  }
  bool skip_value(std::uint32_t type, std::string_view key, int depth) {
    if (type >= kValueTypes) return fail("metadata \"{}\" has the unknown value type {}", shown(key), type);
    if (type == kArray) return skip_array(key, depth + 1);
    if (type != kString) return skip(kValueBytes[type]);
    std::uint64_t n = 0;
    return number(n) && skip(n);
  }
  bool skip_array(std::string_view key, int depth) {
    std::uint32_t type = 0;
    std::uint64_t n = 0;
    if (depth > kArrayDepthMax) return fail("metadata \"{}\" nests arrays deeper than {}", shown(key), kArrayDepthMax);
    if (!number(type) || !number(n)) return false;
    if (type >= kValueTypes) return fail("metadata \"{}\" is an array of the unknown type {}", shown(key), type);
    if (kValueBytes[type] != 0)
      return n <= file_bytes_ / kValueBytes[type] ? skip(n * kValueBytes[type]) : reserve(file_bytes_);
    for (std::uint64_t i = 0; i < n; ++i)
      if (!skip_value(type, key, depth)) return false;
    return true;
  }

  bool read_tensor() {
    std::string_view name;
    std::uint32_t dimensions = 0;
    std::uint32_t type = 0;
    if (!text(kKeyBytesMax, "a tensor name", name) || !number(dimensions)) return false;
    if (dimensions > kGgufDimensionsMax)
      return fail("tensor \"{}\" has {} dimensions; the format allows {}", shown(name), dimensions, kGgufDimensionsMax);
    TensorEntry t{std::string(name), wire::Dtype::unknown, {}, std::vector<std::uint64_t>(dimensions), 0, 0};
    for (std::uint32_t i = dimensions; i-- > 0;)  // the file has the innermost first
      if (!number(t.shape[i])) return false;
    if (!number(type) || !number(t.file_offset) || !size_tensor(t, type)) return false;
    table.tensors.push_back(std::move(t));
    return true;
  }
  bool size_tensor(TensorEntry& t, std::uint32_t id) {
    const auto* type = find_ggml_type(id);
    if (type == nullptr)
      return unsupported(fmt::format("tensor \"{}\" has the unknown or retired ggml type {}", shown(t.name), id));
    t.dtype = type->dtype;
    t.type_name = type->name;
    const auto elements = element_count(t.shape);
    if (!elements || __builtin_mul_overflow(*elements / type->block_elements, type->block_bytes, &t.bytes))
      return fail("tensor \"{}\": its shape is larger than 64 bits can count", shown(t.name));
    const std::uint64_t row = t.shape.empty() ? 1 : t.shape.back();
    if (row % type->block_elements != 0)
      return fail("tensor \"{}\": rows of {} elements do not fill {} blocks of {}", shown(t.name), row, type->name,
                  type->block_elements);
    return true;
  }

  // Offsets count from the aligned end of the header.
  bool place_tensors() {
    table.data_offset = std::min((pos_ + alignment_ - 1) / alignment_ * alignment_, file_bytes_);
    for (auto& t : table.tensors) {
      if (t.file_offset % alignment_ != 0)
        return fail("tensor \"{}\": offset {} is not a multiple of the alignment {}", shown(t.name), t.file_offset,
                    alignment_);
      if (__builtin_add_overflow(t.file_offset, table.data_offset, &t.file_offset))
        return fail("tensor \"{}\": its offset is out of range", shown(t.name));
    }
    if (auto good = check_and_sort(table, file_); !good) return failure = good.take_error(), false;
    return take_split();
  }
  bool take_split() {
    if (split_count_ <= 1) return true;
    if (split_count_ > kGgufSplitsMax || split_index_ >= split_count_ || split_tensors_ < 0)
      return fail("split.no {} of split.count {} makes no sense", split_index_, split_count_);
    table.split = SplitInfo{split_index_, split_count_, static_cast<std::uint64_t>(split_tensors_)};
    return true;
  }

  template <class... Args>
  bool fail(fmt::format_string<Args...> text, Args&&... args) {
    failure = error(VP_CORRUPT, "{}: {}", shown(file_), fmt::format(text, std::forward<Args>(args)...));
    return false;
  }
  bool unsupported(const std::string& text) {
    failure = error(VP_UNSUPPORTED, "{}: {}", shown(file_), text);
    return false;
  }

  std::span<const std::byte> prefix_;
  std::uint64_t file_bytes_;
  std::string_view file_;
  std::uint64_t pos_ = 0;
  std::uint32_t alignment_ = 32;
  std::uint16_t split_index_ = 0;
  std::uint16_t split_count_ = 0;
  std::int32_t split_tensors_ = 0;
};

}  // namespace

Result<ParseStep> parse_gguf(std::span<const std::byte> prefix, std::uint64_t file_bytes, std::string_view file_name) {
  VP_ASSERT(prefix.size() <= file_bytes);
  HeaderReader reader(prefix, file_bytes, file_name);
  if (reader.read()) return ParseStep{std::move(reader.table)};
  if (reader.failure) return std::move(*reader.failure);
  // The header's length is not written anywhere: double until it fits.
  const auto doubled = std::max<std::uint64_t>(prefix.size() * 2, 1 << 20);
  return ParseStep{NeedBytes{std::min(std::max(reader.want, doubled), file_bytes)}};
}

}  // namespace vrampool::formats
