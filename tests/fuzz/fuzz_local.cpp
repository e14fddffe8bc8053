// Fuzzes messages of local clients.
#include "fuzz_message.h"
#include "wire/local_generated.h"

namespace {

bool is_known(const vrampool::wire::LocalMessageT& m) { return m.body.type <= vrampool::wire::LocalBody::MAX; }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  vrampool::fuzz::run_message<vrampool::wire::LocalMessage>(data, size, is_known);
  return 0;
}
