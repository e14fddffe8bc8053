#include "formats/tensor_table.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "base/limits.h"
#include "formats/gguf.h"
#include "formats/safetensors.h"

namespace vrampool::formats {

Result<TensorTable> parse_whole(Parser parse, std::span<const std::byte> file, std::string_view file_name) {
  VP_TRY(step, parse(file, file.size(), file_name));
  VP_ASSERT(std::holds_alternative<TensorTable>(step));  // a parser that has everything needs nothing
  return std::get<TensorTable>(std::move(step));
}

TensorTable raw_table(std::string_view file_name, std::uint64_t file_bytes) {
  TensorTable table = attachment_table(file_bytes);
  table.tensors.push_back({std::string(file_name), wire::Dtype::u8, "U8", {file_bytes}, 0, file_bytes});
  return table;
}

TensorTable attachment_table(std::uint64_t file_bytes) { return {"raw", file_bytes, 0, std::nullopt, {}}; }

Parser detect_format(std::span<const std::byte> prefix, std::string_view file_name) {
  if (prefix.size() >= 4 && std::memcmp(prefix.data(), "GGUF", 4) == 0) return parse_gguf;
  if (file_name.ends_with(".gguf")) return parse_gguf;
  if (file_name.ends_with(".safetensors")) return parse_safetensors;
  return nullptr;
}

std::string shown(std::string_view untrusted) {
  std::string out(untrusted.substr(0, 80));
  for (char& c : out)
    if (c < ' ' || c > '~') c = '?';
  if (untrusted.size() > 80) out += "...";
  return out;
}

Status check_tensor_name(std::string_view name, std::string_view file_name) {
  const bool printable = std::all_of(name.begin(), name.end(), [](char c) { return c >= ' ' && c <= '~'; });
  if (!name.empty() && name.size() <= kNameBytesMax && printable) return {};
  return error(VP_CORRUPT, "{}: tensor name \"{}\" is not 1 to {} printable ASCII characters", shown(file_name),
               shown(name), kNameBytesMax);
}

std::optional<std::uint64_t> element_count(std::span<const std::uint64_t> shape) {
  std::uint64_t n = 1;
  for (const auto d : shape)
    if (__builtin_mul_overflow(n, d, &n)) return std::nullopt;
  return n;
}

namespace {

Status check_names(const TensorTable& table, std::string_view file_name) {
  std::vector<std::string_view> names;
  names.reserve(table.tensors.size());
  for (const auto& t : table.tensors) {
    VP_CHECK(check_tensor_name(t.name, file_name));
    names.push_back(t.name);
  }
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return {};
  return error(VP_CORRUPT, "{}: tensor \"{}\" is listed twice", shown(file_name), shown(*twice));
}

}  // namespace

Status check_and_sort(TensorTable& table, std::string_view file_name) {
  VP_CHECK(check_names(table, file_name));
  std::sort(table.tensors.begin(), table.tensors.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::tie(a.file_offset, a.bytes, a.name) < std::tie(b.file_offset, b.bytes, b.name);
  });
  std::uint64_t end = table.data_offset;
  const TensorEntry* before = nullptr;
  for (const auto& t : table.tensors) {
    if (t.file_offset > table.file_bytes || t.bytes > table.file_bytes - t.file_offset)
      return error(VP_CORRUPT,
                   "{}: tensor \"{}\" ends behind the file's {} bytes; the file is damaged or was cut short",
                   shown(file_name), t.name, table.file_bytes);
    if (t.file_offset < end)
      return error(VP_CORRUPT, "{}: tensor \"{}\" overlaps {}", shown(file_name), t.name,
                   before != nullptr ? fmt::format("tensor \"{}\"", before->name) : std::string("the header"));
    end = t.file_offset + t.bytes;
    before = &t;
  }
  return {};
}

}  // namespace vrampool::formats
