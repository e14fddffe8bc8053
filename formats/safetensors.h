// The safetensors reader: {u64 header length}{JSON header}{tensors without holes}, and its shard index.
// Source: github.com/huggingface/safetensors (README "Format", tensor.rs `Metadata::validate`); we refuse what that
// library refuses, and duplicate names as well.
#pragma once

#include <map>

#include "formats/tensor_table.h"

namespace vrampool::formats {

// The library's own limit.
inline constexpr std::uint64_t kSafetensorsHeaderBytesMax = 100'000'000;

// A Parser (tensor_table.h).
Result<ParseStep> parse_safetensors(std::span<const std::byte> prefix, std::uint64_t file_bytes,
                                    std::string_view file_name);

// model.safetensors.index.json: which shard holds which tensor.
struct SafetensorsIndex {
  std::vector<std::string> files;                  // sorted, each once; plain names, no path
  std::map<std::string, std::size_t> tensor_file;  // tensor name to index in `files`
};

// `bytes` is the whole index file. Errors: VP_CORRUPT; a shard name that is a path is refused.
Result<SafetensorsIndex> parse_safetensors_index(std::span<const std::byte> bytes, std::string_view file_name);

// The shards hold exactly the tensors that the index says, each in its file. `tables[i]` is `index.files[i]`.
Status check_against_index(const SafetensorsIndex& index, std::span<const TensorTable> tables);

}  // namespace vrampool::formats
