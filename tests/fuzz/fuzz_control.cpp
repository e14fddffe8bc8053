// Fuzzes messages between daemons.
#include "fuzz_message.h"
#include "wire/control_generated.h"

namespace {

// Both unions, the outer and that of membership messages.
bool is_known(const vrampool::wire::EnvelopeT& e) {
  using namespace vrampool::wire;
  const auto* m = e.body.AsMembershipMessage();
  return e.body.type <= Body::MAX && (m == nullptr || m->body.type <= MembershipBody::MAX);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  vrampool::fuzz::run_message<vrampool::wire::Envelope>(data, size, is_known);
  return 0;
}
