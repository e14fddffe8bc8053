// Init and join, before this node has a membership machine of its own.
#include "service/founding.h"

#include "membership/machine.h"
#include "platform/clock.h"
#include "platform/machine.h"

namespace vrampool::service {
namespace {

constexpr std::int64_t kJoinDeadlineMs = 2 * kControlCallDeadlineMs;
constexpr int kFoundingStepsMax = 10'000;

}  // namespace

// Nobody asks a joining node anything.
class Outsider final : public PeersOwner {
 public:
  void membership_message(wire::MembershipMessageT) override {}
  Task<Body> answer(PeerFacts, Body) override { co_return Body{}; }
  void peer_changed(MemberNo) override {}
};

std::string machine_text() {
  const auto id = platform::machine_id();
  return id ? to_hex(id->hi, id->lo) : "";
}

Result<membership::DurableState> found_pool(const Birth& birth, const Config& config, PoolId pool,
                                            std::vector<std::string> addresses) {
  using namespace membership;
  DurableState disk;
  disk.node = birth.node;
  Instant now = platform::now();
  Machine machine({birth.node, birth.life, birth.incarnation, Duration::millis(config.detection_ms),
                   Duration::millis(kControlCallDeadlineMs)},
                  disk, now);
  Input next = Command{1, Init{pool, config.node_name, std::move(addresses), machine_text()}};
  std::optional<CommandDone> done;
  for (int i = 0; i < kFoundingStepsMax && !done; ++i) {
    Outbox out;
    machine.step(next, now, out);
    next = Tick{};
    now = now + Duration::millis(kTickEveryMs);
    for (Output& o : out) {
      if (auto* persist = std::get_if<Persist>(&o)) {
        for (const DurableOp& op : persist->ops) apply(disk, op);
        next = Persisted{persist->no};
      }
      if (auto* end = std::get_if<CommandDone>(&o)) done = std::move(*end);
    }
  }
  if (!done) return error(VP_TIMEOUT, "the new pool did not come to life");
  if (done->code != VP_OK) return Error{done->code, done->message};
  return disk;
}

Task<Result<membership::DurableState>> join_pool(Loop& loop, Birth birth, Config config, Invitation invitation,
                                                 std::vector<std::string> addresses) {
  Outsider outsider;
  Peers peers(loop, outsider);
  SelfFacts self;
  self.pool = invitation.key.pool;
  self.node = birth.node;
  self.incarnation = birth.incarnation;
  self.name = config.node_name;
  peers.set_self(self);
  if (const Status ready = peers.start_outward(invitation.key); !ready) co_return ready.error();
  wire::JoinRequestT ask;
  ask.node = membership::to_wire(birth.node);
  ask.name = config.node_name;
  ask.addresses = std::move(addresses);
  ask.machine = machine_text();
  Body request = body_of(std::move(ask));
  Result<Body> answer =
      co_await peers.call_address(invitation.address, std::move(request), Duration::millis(kJoinDeadlineMs));
  if (!answer) co_return answer.take_error();
  const auto* reply = answer->AsJoinReply();
  if (!reply)
    co_return error(VP_CORRUPT, "{} gave an unexpected answer: is it of another version?", invitation.address);
  if (reply->status != VP_OK) co_return Error{static_cast<vp_status>(reply->status), reply->message};
  if (!reply->roster || reply->member == 0)
    co_return error(VP_CORRUPT, "{} admitted this node without a roster", invitation.address);
  co_return membership::joined_state(birth.node, MemberNo{reply->member}, *reply->roster);
}

}  // namespace vrampool::service
