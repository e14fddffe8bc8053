// Fuzzes messages of local clients.
#include "fuzz_message.h"
#include "wire/local_generated.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  vrampool::fuzz::run_message<vrampool::wire::LocalMessage>(data, size);
  return 0;
}
