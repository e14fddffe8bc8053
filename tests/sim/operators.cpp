// What people and programs do to the pool while the weather is bad.
#include <algorithm>

#include "tests_sim/simulation.h"

namespace vrampool::sim {

using wire::SegmentState;

int Simulation::random_running() {
  std::vector<int> running;
  for (std::size_t n = 0; n < world_.nodes.size(); ++n)
    if (world_.runs(static_cast<int>(n)) && world_.nodes[n].disk.self.value != 0)
      running.push_back(static_cast<int>(n));
  return running.empty() ? -1 : running[world_.prng.below(running.size())];
}

int Simulation::random_leased() {
  std::vector<int> leased;
  for (std::size_t n = 0; n < world_.nodes.size(); ++n)
    if (world_.leased(static_cast<int>(n)) && !world_.nodes[n].abandoned) leased.push_back(static_cast<int>(n));
  return leased.empty() ? -1 : leased[world_.prng.below(leased.size())];
}

std::string Simulation::random_name() {
  if (world_.prng.chance(50)) return fmt::format("only-{}", ++unique_names_);
  return fmt::format("model-{}", world_.prng.below(3));
}

wire::RecordT Simulation::new_record(int n, const std::string& name) {
  Node& node = world_.nodes[static_cast<std::size_t>(n)];
  wire::RecordT record;
  record.id = node.m->next_segment_id();
  record.name = name;
  record.creator = {node.disk.self, node.life};
  record.bytes = 64 * kPageBytes;
  record.create_token = world_.prng.next();
  const ms::MemberSet alive = ms::alive_members(node.m->view());
  std::uint32_t ordinal = 0;
  for (const MemberNo member : alive) {
    if (!world_.prng.chance(60) && ordinal > 0) continue;
    auto piece = std::make_unique<wire::PieceT>();
    piece->ordinal = ordinal++;
    piece->node = member.value;
    piece->bytes = 16 * kPageBytes;
    record.pieces.push_back(std::move(piece));
  }
  world_.segments[record.id].names.insert(name);
  return record;
}

SegmentId Simulation::random_segment(int n, SegmentState state) {
  std::vector<SegmentId> ids;
  for (const auto& record : world_.nodes[static_cast<std::size_t>(n)].m->records())
    if (record->state == state) ids.push_back(record->id);
  return ids.empty() ? SegmentId{} : ids[world_.prng.below(ids.size())];
}

// From now on this one may be sealed, and whatever shares one of its names may be replaced.
void Simulation::seal(int n, const SegmentId& id) {
  Known& known = world_.segments[id];
  known.may_be_sealed = true;
  for (auto& [other, theirs] : world_.segments) {
    if (other == id) continue;
    const bool shared = std::any_of(known.names.begin(), known.names.end(),
                                    [&](const std::string& name) { return theirs.names.contains(name); });
    theirs.may_go = theirs.may_go || shared;
  }
  wire::RecordT record;
  record.id = id;
  world_.command(n, ms::Seal{std::move(record), false, world_.prng.chance(15)});
}

void Simulation::act() {
  const int n = world_.prng.chance(90) ? random_leased() : random_running();
  if (n >= 0 && world_.nodes[static_cast<std::size_t>(n)].paused_until <= world_.now()) act_on_names(n);
}

void Simulation::act_on_names(int n) {
  Node& node = world_.nodes[static_cast<std::size_t>(n)];
  const std::uint64_t dice = world_.prng.below(100);
  if (dice < 40) {
    if (node.m->records().size() < 12)
      world_.command(n, ms::Create{new_record(n, random_name()), world_.prng.chance(50)});
  } else if (dice < 65) {
    const SegmentId id = random_segment(n, SegmentState::creating);
    if (!id.is_nil()) seal(n, id);
  } else if (dice < 85) {
    const SegmentId id = random_segment(n, world_.prng.chance(70) ? SegmentState::sealed : SegmentState::creating);
    if (id.is_nil()) return;
    world_.segments[id].may_go = true;
    world_.command(n, ms::Remove{id});
  } else {
    const SegmentId id = random_segment(n, SegmentState::sealed);
    if (id.is_nil()) return;
    const std::string name = random_name();
    world_.segments[id].names.insert(name);
    for (auto& [other, theirs] : world_.segments)  // a seal under way may take this name, or lose it
      if (theirs.names.contains(name)) theirs.may_go = world_.segments[id].may_go = true;
    world_.command(n, ms::Rename{id, name});
  }
}

void Simulation::act_on_roster() {
  switch (world_.prng.below(4)) {
    case 0:
      if (world_.nodes.size() < 5) world_.add_node();
      break;
    case 1: {
      const int n = random_leased();
      if (n >= 0 && world_.prng.chance(30)) world_.command(n, ms::Leave{});
      break;
    }
    default:
      forget_the_gone();
  }
  admit_one();
}

void Simulation::promote_somebody() {
  const int n = random_running();
  if (n >= 0 && !world_.nodes[static_cast<std::size_t>(n)].abandoned) world_.command(n, ms::Promote{});
}

// A person who sees only `n`'s side gives up all that cannot be reached from there.
void Simulation::promote_by_force(int n) {
  // One at a time: two sides that abandon each other need a person to choose.
  const bool apart =
      std::any_of(world_.nodes.begin(), world_.nodes.end(), [](const Node& node) { return node.abandoned; });
  if (n < 0 || apart) return;
  ms::Promote promote{true, {}};
  for (const auto& entry : world_.nodes[static_cast<std::size_t>(n)].m->roster().entries) {
    const MemberNo member{entry->member};
    const int other = world_.node_of(member);
    if (other == n || member == world_.nodes[static_cast<std::size_t>(n)].disk.self) continue;
    const bool reachable = other >= 0 && world_.runs(other) && !world_.is_cut(n, other) && !world_.is_cut(other, n);
    if (reachable) continue;
    promote.abandoned.push_back(member);
    if (other >= 0) world_.nodes[static_cast<std::size_t>(other)].abandoned = true;
  }
  world_.forgive();
  world_.command(n, std::move(promote));
}

// Nodes without a membership ask a member that leads or follows; one at a time.
void Simulation::admit_one() {
  for (std::size_t i = watched_ops_; i < world_.ops.size(); ++i) {
    const Op& op = world_.ops[i];
    if (!std::holds_alternative<ms::Admit>(op.command.what)) continue;
    if (!op.done && !op.lost) return;
    watched_ops_ = i + 1;
    const NodeId wanted = std::get<ms::Admit>(op.command.what).node;
    for (std::size_t n = 0; n < world_.nodes.size() && op.done; ++n)
      if (world_.nodes[n].id == wanted && !world_.nodes[static_cast<std::size_t>(op.node)].abandoned)
        world_.adopt(static_cast<int>(n), *op.done);
  }
  const int through = random_leased();
  if (through < 0) return;
  std::vector<std::size_t> waiting;
  for (std::size_t n = 0; n < world_.nodes.size(); ++n)
    if (world_.nodes[n].wants_to_join && !world_.nodes[n].gone) waiting.push_back(n);
  if (waiting.empty()) return;
  const std::size_t n = waiting[world_.prng.below(waiting.size())];
  world_.command(through,
                 ms::Admit{world_.nodes[n].id, fmt::format("node-{}", n), {"127.0.0.1:1"}, world_.nodes[n].machine});
}

// Members whose machine is another node now, or which lost their membership's disk.
void Simulation::forget_the_gone() {
  const int n = random_leased();
  if (n < 0) return;
  for (const auto& entry : world_.nodes[static_cast<std::size_t>(n)].m->roster().entries) {
    const bool lives = std::any_of(world_.nodes.begin(), world_.nodes.end(), [&](const Node& node) {
      return node.id == ms::to_node_id(entry->node) && !node.wants_to_join;
    });
    const bool waits = std::any_of(world_.nodes.begin(), world_.nodes.end(), [&](const Node& node) {
      return node.id == ms::to_node_id(entry->node) && node.wants_to_join;
    });
    if (lives || waits || entry->joining) continue;
    world_.command(n, ms::Forget{MemberNo{entry->member}});
    return;
  }
}

void Simulation::remove_leftovers() {
  const int n = world_.coordinator();
  if (n < 0) return;
  for (const auto& record : world_.nodes[static_cast<std::size_t>(n)].m->records()) {
    if (record->state != SegmentState::creating) continue;
    world_.segments[record->id].may_go = true;
    world_.command(n, ms::Remove{record->id});
    if (world_.coordinator() != n) return;
  }
}

// A forced promotion that came to nothing abandoned nobody.
void Simulation::recheck_abandoned() {
  for (std::size_t n = 0; n < world_.nodes.size(); ++n) {
    Node& node = world_.nodes[n];
    if (!node.abandoned || !node.m) continue;
    const bool dropped = std::any_of(world_.nodes.begin(), world_.nodes.end(), [&](const Node& other) {
      return other.m && !other.abandoned && !other.wants_to_join &&
             ms::find_member(other.m->roster(), node.disk.self) == nullptr;
    });
    bool under_way = false;
    for (const Op& op : world_.ops)
      if (const auto* promote = std::get_if<ms::Promote>(&op.command.what))
        under_way = under_way || (promote->force && !op.done && !op.lost);
    if (!dropped && !under_way) node.abandoned = false;
  }
}

}  // namespace vrampool::sim
