// What the service around a machine does with its outputs: disk orders, pieces, new lives.
#include <algorithm>

#include "tests_sim/world.h"

namespace vrampool::sim {

std::string describe(const ms::Command& command) {
  static constexpr const char* kKinds[] = {"init", "admit",  "forget", "leave",  "promote", "create",
                                           "seal", "rename", "remove", "update", "freed"};
  std::string text = kKinds[command.what.index()];
  std::visit(
      [&](const auto& what) {
        if constexpr (requires { what.record.id; }) text += " " + to_text(what.record.id);
        if constexpr (requires { what.id; }) text += " " + to_text(what.id);
        if constexpr (requires { what.member; }) text += fmt::format(" {}", what.member.value);
      },
      command.what);
  return text;
}

void World::take(int n, ms::Outbox out) {
  const std::uint64_t boot = boots_[n];
  for (ms::Output& output : out) {
    if (!ok() || boots_[n] != boot) return;  // it died of an earlier output
    std::visit([&](auto& value) { on_output(n, value); }, output);
  }
}

void World::on_output(int n, ms::Persist& order) {
  Node& node = nodes[static_cast<std::size_t>(n)];
  std::int64_t takes = calm ? 1 : prng.between(0, climate.disk_delay);
  if (!calm && prng.chance(climate.disk_stalls)) takes += prng.between(0, 800);
  node.disk_free_at = std::max(node.disk_free_at, now_) + takes;
  node.writing.push_back(std::move(order));
  schedule({node.disk_free_at, 0, n, boots_[n], Event::Kind::persisted, nullptr});
}

void World::on_output(int n, ms::LeaseGained&) { note(fmt::format("node {} has a lease", n)); }
void World::on_output(int n, ms::LeaseLost&) { note(fmt::format("node {} lost its lease", n)); }
void World::on_output(int n, ms::Deposed& d) {
  note(fmt::format("node {} was deposed by term {}.{}", n, d.by.count, d.by.member.value));
}

void World::on_output(int n, ms::BecameCoordinator& b) {
  ++counts.terms;
  note(fmt::format("node {} coordinates term {}.{}", n, b.term.count, b.term.member.value));
}

void World::on_output(int n, ms::MustRestart& restart) {
  note(fmt::format("node {} must restart{}", n, restart.forgotten ? ", forgotten" : ""));
  ++counts.deaths;
  if (!restart.forgotten) return crash(n, false, prng.between(10, 500));
  crash(n, true, -1);
  wipe(n);
}

void World::on_output(int n, ms::CommandDone& done) {
  const auto at = op_index_.find({n, {nodes[static_cast<std::size_t>(n)].life.value, done.no}});
  if (at == op_index_.end()) return fail(fmt::format("node {} ends a command that nobody gave: {}", n, done.no));
  Op& op = ops[at->second];
  if (op.done) return fail(fmt::format("node {} ends command {} twice", n, done.no));
  op.done = done;
  note(fmt::format("node {} command {} ({}) ends: {} {}", n, done.no, describe(op.command), static_cast<int>(done.code),
                   done.message));
  if (done.code == VP_OK) ++counts.acked;
  if (done.code == VP_UNKNOWN_OUTCOME) ++counts.unknown;
  if (done.code != VP_OK && done.code != VP_UNKNOWN_OUTCOME) ++counts.refused;
  if (done.code == VP_OK) acknowledge(op);
  const auto* create = std::get_if<ms::Create>(&op.command.what);
  if (create != nullptr && done.code == VP_EXISTS && segments[create->record.id].seen)
    fail("a create did not find the segment that it had made");
}

// A host makes its pieces when the record that places them here becomes visible, and frees them at the tombstone.
void World::on_output(int n, ms::RecordApplied& applied) {
  note(fmt::format("node {} sees {} {} '{}'", n, to_text(applied.record->id),
                   wire::EnumNameSegmentState(applied.record->state), applied.record->name));
  check_record(n, *applied.record);
  if (applied.record->state == wire::SegmentState::creating && host_makes_pieces) make_pieces(n, *applied.record);
}

void World::make_pieces(int n, const wire::RecordT& record) {
  Node& node = nodes[static_cast<std::size_t>(n)];
  for (const auto& piece : record.pieces) {
    if (piece->node != node.disk.self.value) continue;
    node.pieces[{record.id, piece->ordinal}] = node.incarnation;
    node.found[{record.id, piece->ordinal}] = now_;
  }
}

void World::host_tick(int n) {
  Node& node = nodes[static_cast<std::size_t>(n)];
  node.host_tick = now_ + 400;
  settle_pieces(n);
  if (!leased(n)) return;
  check_acknowledged(n);
  for (const auto& record : node.m->records()) {
    if (!node.m) return;
    if (record->state != wire::SegmentState::deleted) continue;
    const auto& waits = record->tombstone_waits_for;
    const bool waited = std::find(waits.begin(), waits.end(), node.disk.self.value) != waits.end();
    const bool holds = std::any_of(node.pieces.begin(), node.pieces.end(),
                                   [&](const auto& p) { return p.first.segment == record->id; });
    if (waited && !holds) command(n, ms::Freed{record->id});
  }
}

void World::settle_pieces(int n) {
  Node& node = nodes[static_cast<std::size_t>(n)];
  std::vector<ms::PieceFound> found;
  for (const auto& [piece, incarnation] : node.pieces)
    found.push_back({piece, incarnation, Instant{local(node).ns - (now_ - node.found[piece]) * 1'000'000}});
  const auto verdicts = ms::reconcile(*node.m, node.incarnation, found, local(node));
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (verdicts[i] != ms::PieceVerdict::free && verdicts[i] != ms::PieceVerdict::void_) continue;
    note(fmt::format("node {} frees piece {}", n, to_text(found[i].id)));
    node.pieces.erase(found[i].id);
  }
}

}  // namespace vrampool::sim
