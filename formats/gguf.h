// The GGUF reader, versions 2 and 3, with split files. Metadata is skipped within bounds, except for the four
// keys that say where tensors lie (general.alignment, split.no, split.count, split.tensors.count).
// Source: github.com/ggml-org/ggml docs/gguf.md; block sizes from ggml's gguf-py/gguf/constants.py.
#pragma once

#include "formats/tensor_table.h"

namespace vrampool::formats {

// Metadata with the largest vocabularies takes some 20 MB.
inline constexpr std::uint64_t kGgufHeaderBytesMax = 512ull << 20;
inline constexpr std::uint64_t kGgufMetadataKeysMax = 1 << 16;
inline constexpr std::uint32_t kGgufDimensionsMax = 4;
inline constexpr std::uint32_t kGgufSplitsMax = 4096;

// A Parser (tensor_table.h). Gaps between tensors are allowed, overlaps are not.
Result<ParseStep> parse_gguf(std::span<const std::byte> prefix, std::uint64_t file_bytes, std::string_view file_name);

// Elements and bytes of one block of a ggml type.
struct GgmlType {
  std::uint32_t id = 0;
  const char* name = "";
  std::uint32_t block_elements = 1;
  std::uint32_t block_bytes = 0;
  wire::Dtype dtype = wire::Dtype::quantized;
};
// Every type that ggml knows today, by id.
std::span<const GgmlType> ggml_types();
const GgmlType* find_ggml_type(std::uint32_t id);

// All file names of the split that "x-00001-of-00003.gguf" belongs to, in order; empty for any other name.
std::vector<std::string> gguf_split_names(std::string_view file_name);

// The files are all parts of one split, in order, and hold as many tensors as they say.
Status check_gguf_split(std::span<const TensorTable> tables);

}  // namespace vrampool::formats
