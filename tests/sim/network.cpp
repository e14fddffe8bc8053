// The network between the nodes: late, twice, never, in another order, and one way only.
#include <cmath>

#include "tests_sim/world.h"
#include "wire/codec.h"

namespace vrampool::sim {

int World::receiver_of(int from, MemberNo to) const {
  const Node& sender = nodes[static_cast<std::size_t>(from)];
  const wire::RosterT& roster = sender.m->roster();
  if (const auto* entry = ms::find_member(roster, to)) {
    for (std::size_t n = 0; n < nodes.size(); ++n)
      if (nodes[n].id == ms::to_node_id(entry->node)) return static_cast<int>(n);
    return -1;
  }
  for (std::size_t n = 0; n < nodes.size(); ++n)
    if (nodes[n].disk.self == to && static_cast<int>(n) != from) return static_cast<int>(n);
  return -1;
}

void World::on_output(int n, ms::Send& send) {
  const int to = receiver_of(n, send.to);
  const wire::MembershipMessageT& m = send.message;
  ++counts.messages;
  mix(static_cast<std::uint64_t>(m.body.type) * 64 + static_cast<std::uint64_t>(n) * 8 + send.to.value);
  mix(m.term.count);
  if (trace_ && m.body.type != wire::MembershipBody::Heartbeat && m.body.type != wire::MembershipBody::Lease)
    note(fmt::format("node {} -> {}: {} (term {}.{})", n, to, wire::EnumNameMembershipBody(m.body.type), m.term.count,
                     m.term.member.value));
  if (to < 0 || is_cut(n, to)) return;
  auto message = std::make_shared<wire::MembershipMessageT>(m);
  if (prng.chance(5)) {  // the bytes must carry it too
    auto decoded = wire::decode<wire::MembershipMessage>(wire::encode<wire::MembershipMessage>(m), "sim");
    if (!decoded || *decoded != m) return fail("a message did not survive the wire");
    *message = std::move(*decoded);
  }
  if (holds_.contains({n, to})) {
    held_[{n, to}].push_back(std::move(message));
    return;
  }
  if (!calm && prng.chance(climate.loss)) {
    ++counts.lost;
    return;
  }
  if (!calm && prng.chance(climate.duplicates)) deliver_later(to, message);
  deliver_later(to, std::move(message));
}

void World::deliver_later(int to, std::shared_ptr<wire::MembershipMessageT> message) {
  std::int64_t delay = 1;
  const std::int64_t mean = calm ? 2 : climate.delay_mean;
  while (delay < mean * 6 && !prng.chance(static_cast<std::uint64_t>(100 / (mean + 1) + 1))) ++delay;
  if (!calm && prng.chance(climate.stragglers)) delay += prng.between(0, 5000);
  schedule({now_ + delay, 0, to, 0, Event::Kind::message, std::move(message)});
}

void World::release(int from, int to) {
  holds_.erase({from, to});
  auto messages = std::move(held_[{from, to}]);
  held_.erase({from, to});
  for (auto& message : messages) deliver_later(to, std::move(message));
}

}  // namespace vrampool::sim
