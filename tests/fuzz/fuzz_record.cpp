// Fuzzes registry records, as they come from peers and from disk.
#include "fuzz_message.h"
#include "wire/record_generated.h"

namespace {

bool is_known(const vrampool::wire::RecordT&) { return true; }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  vrampool::fuzz::run_message<vrampool::wire::Record>(data, size, is_known);
  return 0;
}
