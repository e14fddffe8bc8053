// Nodes, their disks and clocks, and the passing of time.
#include "tests_sim/world.h"

#include <algorithm>
#include <cstdio>

#include "base/mark.h"

namespace vrampool::sim {

Climate climate_of(Prng& prng) {
  Climate c;
  c.nodes = static_cast<int>(prng.between(2, 5));
  c.detection = prng.chance(50) ? 2000 : 3000;
  c.delay_mean = prng.between(1, 60);
  c.loss = static_cast<unsigned>(prng.below(25));
  c.duplicates = static_cast<unsigned>(prng.below(25));
  c.stragglers = static_cast<unsigned>(prng.below(5));
  c.disk_delay = prng.between(1, 40);
  c.disk_stalls = static_cast<unsigned>(prng.below(6));
  const auto maybe = [&](unsigned percent, std::int64_t low, std::int64_t high) {
    return prng.chance(percent) ? prng.between(low, high) : 0;
  };
  c.cut_every = maybe(60, 1500, 9000);
  c.crash_every = maybe(60, 1500, 12000);
  c.pause_every = maybe(50, 1500, 12000);
  c.suspend_every = maybe(40, 4000, 20000);
  c.disk_loss_every = maybe(20, 15000, 60000);
  c.act_every = prng.between(40, 600);
  c.promote_every = maybe(50, 3000, 20000);
  c.roster_every = maybe(40, 3000, 15000);
  c.force_every = maybe(10, 15000, 60000);
  if (prng.chance(15)) {  // slow disks that crashes interrupt
    c.disk_delay = prng.between(50, 400);
    c.disk_stalls = 25;
    c.crash_every = prng.between(800, 3000);
    c.promote_every = prng.between(2000, 6000);
  } else if (prng.chance(15)) {  // long partitions with a person on either side
    c.nodes = static_cast<int>(prng.between(4, 5));
    c.cut_every = prng.between(8000, 16000);
    c.promote_every = prng.between(1500, 5000);
  }
  return c;
}

World::World(Climate c, std::uint64_t seed, bool trace)
    : climate(c), prng{seed * 0x2545f4914f6cdd1dull + 1}, trace_(trace) {}

int World::add_node() {
  Node node;
  const int n = static_cast<int>(nodes.size());
  node.id = {0x1000, static_cast<std::uint64_t>(n) + 1};
  node.machine = fmt::format("machine-{}", n);
  node.clock_offset = prng.between(1, 1'000'000);  // every machine booted at another time
  node.clock_ppm = prng.between(-climate.drift_ppm, climate.drift_ppm);
  nodes.push_back(std::move(node));
  return n;
}

Instant World::local(const Node& node) const {
  const std::int64_t t = now_ - (VP_BUG(50) ? node.slept : 0);  // 50: a clock that stands still in suspend
  return Instant{(node.clock_offset + t) * 1'000'000 + t * node.clock_ppm};
}

void World::boot(int n) {
  Node& node = nodes[static_cast<std::size_t>(n)];
  node.boots_at = -1;
  ++node.life.value;
  if (node.incarnation.value == 0) node.incarnation = Incarnation{node.life.value};
  ms::Options options;
  options.node = node.id;
  options.life = node.life;
  options.incarnation = node.incarnation;
  options.detection = Duration::millis(climate.detection);
  options.command_deadline = Duration::millis(10'000);
  options.records_per_chunk = 3;
  node.m.emplace(options, node.disk, local(node));
  node.disk_free_at = now_;
  // A new life may know an older view than the last one did: it holds no lease before it has caught up.
  if (node.m->epoch() > node.highest_epoch && node.highest_epoch != Epoch{})
    fail(fmt::format("node {}: its disk is ahead of what it saw", n));
  node.highest_epoch = node.m->epoch();
  ++boots_[n];
  note(fmt::format("node {} starts life {} (member {})", n, node.life.value, node.disk.self.value));
  schedule({now_ + prng.between(0, ms::kTickEveryMs), 0, n, boots_[n], Event::Kind::tick, nullptr});
  node.found.clear();
  for (const auto& [piece, incarnation] : node.pieces) node.found[piece] = now_;
  check_registry(n);
}

// Orders under way may or may not have reached the disk, in their order.
void World::crash(int n, bool reboot, std::int64_t back_after) {
  Node& node = nodes[static_cast<std::size_t>(n)];
  if (node.m) {
    note(fmt::format("node {} crashes{}", n, reboot ? " and loses its memory" : ""));
    ++counts.crashes;
    const std::uint64_t reached = node.disk_stopped ? 0 : prng.below(node.writing.size() + 1);
    for (std::uint64_t i = 0; i < reached; ++i)
      for (const auto& op : node.writing[i].ops) ms::apply(node.disk, op);
    for (Op& op : ops) op.lost = op.lost || (op.node == n && !op.done);
  }
  node.writing.clear();
  node.m.reset();
  ++boots_[n];
  if (reboot) {
    node.pieces.clear();
    node.incarnation = {};
  }
  if (back_after < 0) return;
  node.boots_at = now_ + back_after;
  schedule({node.boots_at, 0, n, boots_[n], Event::Kind::boot, nullptr});
}

// The machine comes back as another node: new id, no membership, no pieces.
void World::wipe(int n) {
  Node& node = nodes[static_cast<std::size_t>(n)];
  node.disk = {};
  node.id = {0x1000 + node.id.hi, node.id.lo};
  node.life = {};
  node.incarnation = {};
  node.pieces.clear();
  node.wants_to_join = true;
  node.abandoned = false;
  node.highest_epoch = {};
}

void World::lose_disk(int n) {
  note(fmt::format("node {} loses its disk", n));
  crash(n, true, -1);
  wipe(n);
}

void World::pause(int n, std::int64_t for_ms, bool suspend) {
  Node& node = nodes[static_cast<std::size_t>(n)];
  if (node.paused_until > now_) return;
  note(fmt::format("node {} {} for {} ms", n, suspend ? "is suspended" : "pauses", for_ms));
  ++counts.pauses;
  node.paused_until = now_ + for_ms;
  if (suspend) node.slept += for_ms;
}

bool World::adopt(int n, const ms::CommandDone& admitted) {
  if (admitted.code != VP_OK || !admitted.roster) return false;
  Node& node = nodes[static_cast<std::size_t>(n)];
  const auto* entry = ms::find_member(*admitted.roster, admitted.member);
  if (!node.wants_to_join || entry == nullptr || ms::to_node_id(entry->node) != node.id) return false;
  node.disk = ms::joined_state(node.id, admitted.member, *admitted.roster);
  node.wants_to_join = false;
  boot(n);
  return true;
}

std::uint64_t World::command(int n, decltype(ms::Command::what) what) {
  Node& node = nodes[static_cast<std::size_t>(n)];
  Op op;
  op.node = n;
  op.life = node.life;
  op.no = ++node.commands;
  op.command = {op.no, std::move(what)};
  op.issued = now_;
  op_index_[{n, {op.life.value, op.no}}] = ops.size();
  ops.push_back(op);
  const std::size_t index = ops.size() - 1;
  step(n, ms::Input{op.command});
  return index;
}

void World::schedule(Event event) {
  event.seq = ++seq_;
  events_.push(std::move(event));
}

void World::run_for(std::int64_t ms) {
  const std::int64_t end = now_ + ms;
  run_until([&] { return now_ >= end || events_.empty() || events_.top().at >= end; }, ms);
  if (ok()) now_ = end;
}

void World::turn() {
  if (events_.empty()) {
    now_ += 1;
    return;
  }
  const Event event = events_.top();
  events_.pop();
  now_ = std::max(now_, event.at);
  ++counts.events;
  handle(event);
}

void World::handle(const Event& event) {
  Node& node = nodes[static_cast<std::size_t>(event.node)];
  const bool mine = event.boot == boots_[event.node];
  if (event.kind == Event::Kind::boot) {
    if (mine && !node.m && !node.gone) boot(event.node);
    return;
  }
  if (!node.m || (event.kind != Event::Kind::message && !mine)) return;
  if (node.paused_until > now_) {  // the kernel keeps what arrives
    Event again = event;
    again.at = node.paused_until;
    return schedule(std::move(again));
  }
  if (event.kind == Event::Kind::persisted && node.disk_stopped) {
    Event again = event;
    again.at = now_ + 50;
    return schedule(std::move(again));
  }
  switch (event.kind) {
    case Event::Kind::message:
      step(event.node, ms::PeerMessage{*event.message});
      break;
    case Event::Kind::persisted:
      write_done(event.node);
      break;
    default:
      schedule({now_ + ms::kTickEveryMs, 0, event.node, event.boot, Event::Kind::tick, nullptr});
      step(event.node, ms::Tick{});
      if (node.m && now_ >= node.host_tick) host_tick(event.node);
  }
  if (!ok()) return;
  check_fencing();
  check_one_coordinator();
}

void World::step(int n, const ms::Input& input) {
  Node& node = nodes[static_cast<std::size_t>(n)];
  if (!node.m) return;
  ms::Outbox out;
  node.m->step(input, local(node), out);
  take(n, std::move(out));
}

void World::write_done(int n) {
  Node& node = nodes[static_cast<std::size_t>(n)];
  if (node.writing.empty()) return;
  const ms::Persist order = std::move(node.writing.front());
  node.writing.pop_front();
  for (const auto& op : order.ops) ms::apply(node.disk, op);
  step(n, ms::Persisted{order.no});
}

bool World::leased(int n) const {
  const Node& node = nodes[static_cast<std::size_t>(n)];
  return node.m && node.m->lease_holds(local(node));
}

int World::node_of(MemberNo member) const {
  for (std::size_t n = 0; n < nodes.size(); ++n)
    if (nodes[n].disk.self == member && !nodes[n].wants_to_join && !nodes[n].abandoned) return static_cast<int>(n);
  return -1;
}

int World::coordinator() const {
  for (std::size_t n = 0; n < nodes.size(); ++n)
    if (!nodes[n].abandoned && nodes[n].m && nodes[n].m->is_coordinator() && leased(static_cast<int>(n)))
      return static_cast<int>(n);
  return -1;
}

void World::note(const std::string& line) {
  for (const char c : line) mix(static_cast<unsigned char>(c));
  if (trace_) std::printf("%8lld  %s\n", static_cast<long long>(now_), line.c_str());
}

void World::mix(std::uint64_t value) {
  hash_ ^= value + static_cast<std::uint64_t>(now_);
  hash_ *= 1099511628211ull;
}

}  // namespace vrampool::sim
