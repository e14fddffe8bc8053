// Fuzzes the reader of a sharded model's index: no shard name may lead out of the index's folder.
#include "check.h"
#include "formats/safetensors.h"

using namespace vrampool;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto index = formats::parse_safetensors_index(fuzz::bytes_of(data, size), "index");
  if (!index.ok()) return fuzz::check_message(index.error()), 0;
  for (const auto& file : index->files) fuzz::must(!file.empty() && file.find('/') == file.npos && file[0] != '.');
  for (const auto& [name, file] : index->tensor_file) fuzz::must(!name.empty() && file < index->files.size());
  return 0;
}
