// What every format reader hands back: the tensors of one file, in no format's own words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "wire/record_generated.h"

namespace vrampool::formats {

// One tensor of a file. `type_name` is the format's own word ("BF16", "Q4_K"); shape is outermost first.
// Units: `file_offset` counts from the first byte of the file, header included.
struct TensorEntry {
  std::string name;
  wire::Dtype dtype = wire::Dtype::unknown;
  std::string type_name;
  std::vector<std::uint64_t> shape;
  std::uint64_t file_offset = 0;
  std::uint64_t bytes = 0;
};

// This file is number `index` (from 0) of `count`; together they hold `tensors` tensors (0: not said).
struct SplitInfo {
  std::uint32_t index = 0;
  std::uint32_t count = 1;
  std::uint64_t tensors = 0;
};

// The tensors in order of file_offset: inside the file, behind the header, none overlapping another.
struct TensorTable {
  std::string format;  // "safetensors", "gguf", "raw"
  std::uint64_t file_bytes = 0;
  std::uint64_t data_offset = 0;   // header and its padding end here
  std::optional<SplitInfo> split;  // GGUF files with split.* metadata
  std::vector<TensorEntry> tensors;
};

// "Call again with at least the first `prefix_bytes` bytes of the file." Always more than was given, never
// more than the file has.
struct NeedBytes {
  std::uint64_t prefix_bytes = 0;
};
using ParseStep = std::variant<NeedBytes, TensorTable>;

// A reader: `prefix` are the first bytes of the file `file_name`, which has `file_bytes` in all.
// Errors: VP_CORRUPT for bytes that break the format's rules, VP_UNSUPPORTED for rules we do not know;
// one line that names the file, the tensor and what is wrong. Pure: no file is touched, nothing is kept.
using Parser = Result<ParseStep> (*)(std::span<const std::byte> prefix, std::uint64_t file_bytes,
                                     std::string_view file_name);

// Drives `parse` over bytes that are all in memory.
Result<TensorTable> parse_whole(Parser parse, std::span<const std::byte> file, std::string_view file_name);

// A file without a format: one u8 tensor, named like the file, that covers it.
TensorTable raw_table(std::string_view file_name, std::uint64_t file_bytes);
// A file that goes along with a model (config.json, the shard index): format "raw", no tensor.
TensorTable attachment_table(std::uint64_t file_bytes);

// The reader for a file by its first bytes (at least 8, or the whole file) and its name; nullptr: raw.
Parser detect_format(std::span<const std::byte> prefix, std::string_view file_name);

// ---- For readers ----
// Untrusted text made fit for a message: at most 80 characters, anything unprintable becomes '?'.
std::string shown(std::string_view untrusted);
// Tensor names: 1..255 printable ASCII characters.
Status check_tensor_name(std::string_view name, std::string_view file_name);
// Product of the shape; nothing if it does not fit into 64 bits.
std::optional<std::uint64_t> element_count(std::span<const std::uint64_t> shape);
// Sorts by offset and refuses duplicate names, overlaps and tensors outside [data_offset, file_bytes).
Status check_and_sort(TensorTable& table, std::string_view file_name);

}  // namespace vrampool::formats
