// Fuzzes messages between daemons.
#include "fuzz_message.h"
#include "wire/control_generated.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  vrampool::fuzz::run_message<vrampool::wire::Envelope>(data, size);
  return 0;
}
