// Fuzzes the safetensors reader.
#include "formats/safetensors.h"
#include "fuzz_parser.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  vrampool::fuzz::run_parser(vrampool::formats::parse_safetensors, data, size);
  return 0;
}
