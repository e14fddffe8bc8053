// The all-knowing checkers: what must hold at every moment, and what must hold when everything is quiet.
#include <algorithm>

#include "tests_sim/world.h"
#include "wire/codec.h"

namespace vrampool::sim {

namespace {
std::uint64_t hash_bytes(std::span<const std::byte> bytes) {
  std::uint64_t h = 1469598103934665603ull;
  for (const std::byte b : bytes) h = (h ^ static_cast<unsigned char>(b)) * 1099511628211ull;
  return h;
}

std::uint64_t era_of(const Term& term) { return term.count / 1'000'000; }
}  // namespace

std::uint64_t hash_of(const wire::ViewT& view) { return hash_bytes(wire::encode<wire::View>(view)); }
std::uint64_t hash_of(const wire::RecordT& record) { return hash_bytes(wire::encode<wire::Record>(record)); }

void World::fail(const std::string& why) {
  if (!why_.empty()) return;
  why_ = fmt::format("{} at {} ms", why, now_);
  note("FAILED: " + why_);
  for (std::size_t n = 0; n < nodes.size(); ++n)
    if (nodes[n].m) note(fmt::format("node {}: {}", n, nodes[n].m->describe()));
}

void World::forgive() {
  for (auto& [id, known] : segments) {
    known.created = known.sealed = known.removed = false;
    known.may_go = known.may_be_sealed = true;
  }
  addresses_.clear();
  numbers_.clear();
}

void World::on_output(int n, ms::ViewChanged& changed) {
  Node& node = nodes[static_cast<std::size_t>(n)];
  const wire::ViewT& view = changed.view;
  std::string living;
  for (const auto& line : view.members)
    if (line->state == wire::MemberState::alive) living += fmt::format(" {}/{}", line->member, line->life);
  note(fmt::format("node {} view {}: {}", n, to_text(view.epoch), living));
  if (view.epoch <= node.highest_epoch)
    return fail(
        fmt::format("node {}: the epoch fell from {} to {}", n, to_text(node.highest_epoch), to_text(view.epoch)));
  node.highest_epoch = view.epoch;
  const auto [at, fresh] = views_.try_emplace(view.epoch, hash_of(view));
  if (!fresh && at->second != hash_of(view)) return fail(fmt::format("two views of one epoch {}", to_text(view.epoch)));
  if (node.abandoned) return;
  for (const auto& line : view.members) {
    const bool alive = line->state == wire::MemberState::alive;
    Death& death = deaths_[MemberNo{line->member}];
    if (era_of(death.told_in.term) != era_of(view.epoch.term)) death = {};  // a forced promotion starts a new account
    if (alive && line->life <= death.life.value && view.epoch > death.told_in)
      return fail(fmt::format("view {} revives life {} of member {}", to_text(view.epoch), line->life, line->member));
    const Life over{alive ? line->life - 1 : line->life};
    if (over > death.life) death = {over, view.epoch};
    if (over == death.life) death.told_in = std::min(death.told_in, view.epoch);
  }
}

void World::on_output(int n, ms::RosterChanged& changed) {
  std::string members;
  for (const auto& entry : changed.roster.entries)
    members += fmt::format(" {}{}{}", entry->member, entry->joining ? "+" : "", entry->leaving ? "-" : "");
  note(fmt::format("node {} roster:{} (init {})", n, members, changed.roster.init_member));
  if (nodes[static_cast<std::size_t>(n)].abandoned) return;
  for (const auto& entry : changed.roster.entries) {
    const auto [at, fresh] = numbers_.try_emplace(MemberNo{entry->member}, ms::to_node_id(entry->node));
    if (!fresh && at->second != ms::to_node_id(entry->node))
      return fail(fmt::format("member number {} was given twice", entry->member));
  }
}

// A life that some node saw declared over holds no lease anywhere.
void World::check_fencing() {
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    if (!nodes[n].m || nodes[n].abandoned || !leased(static_cast<int>(n))) continue;
    const auto dead = deaths_.find(nodes[n].disk.self);
    if (dead == deaths_.end() || era_of(dead->second.told_in.term) != era_of(nodes[n].m->term())) continue;
    if (nodes[n].life <= dead->second.life)
      return fail(fmt::format("node {} (member {}) holds a lease in life {} that was declared dead", n,
                              nodes[n].disk.self.value, nodes[n].life.value));
  }
}

void World::check_one_coordinator() {
  int found = -1;
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    if (!nodes[n].m || nodes[n].abandoned || !nodes[n].m->is_coordinator() || !leased(static_cast<int>(n))) continue;
    if (found >= 0) return fail(fmt::format("nodes {} and {} both coordinate", found, n));
    found = static_cast<int>(n);
  }
}

void World::check_record(int n, const wire::RecordT& record) {
  const Node& node = nodes[static_cast<std::size_t>(n)];
  if (node.abandoned) return;
  const auto [at, fresh] = record_hashes_.try_emplace({record.id, record.version}, hash_of(record));
  if (!fresh && at->second != hash_of(record))
    return fail(fmt::format("segment {} has two contents of one version", to_text(record.id)));
  check_registry(n);
  Known& known = segments[record.id];
  known.names.insert(record.name);
  known.seen = true;
  if (record.state == wire::SegmentState::deleted && !known.may_go)
    return fail(fmt::format("segment {} was removed by nobody", to_text(record.id)));
  if ((record.state == wire::SegmentState::sealed) && !known.may_be_sealed)
    return fail(fmt::format("segment {} was sealed by nobody", to_text(record.id)));
  if (record.bytes == 0) return;
  const std::uint64_t end = record.address + record.bytes;
  const auto next = addresses_.lower_bound(record.address);
  if (next != addresses_.end() && next->first < end && next->second.second != record.id)
    return fail(
        fmt::format("segments {} and {} share pool addresses", to_text(record.id), to_text(next->second.second)));
  if (next != addresses_.begin()) {
    const auto before = std::prev(next);
    if (before->second.first > record.address && before->second.second != record.id)
      return fail(
          fmt::format("segments {} and {} share pool addresses", to_text(record.id), to_text(before->second.second)));
  }
  addresses_[record.address] = {end, record.id};
}

// Names are unique in what every node sees, at every moment.
void World::check_registry(int n) {
  const Node& node = nodes[static_cast<std::size_t>(n)];
  if (node.abandoned || !node.m) return;
  std::map<std::string, SegmentId> published, reserved;
  for (const auto& record : node.m->records()) {
    if (record->state == wire::SegmentState::deleted || record->name.empty()) continue;
    auto& names = record->state == wire::SegmentState::creating ? reserved : published;
    if (!names.try_emplace(record->name, record->id).second)
      return fail(fmt::format("node {} sees two segments named '{}'", n, record->name));
    if (&names == &published &&
        (!node.m->find_by_name(record->name) || node.m->find_by_name(record->name)->id != record->id))
      return fail(fmt::format("node {}: the index of names is wrong about '{}'", n, record->name));
  }
}

// What was acknowledged is true on every node that holds a lease.
void World::check_acknowledged(int n) {
  const Node& node = nodes[static_cast<std::size_t>(n)];
  if (node.abandoned) return;
  for (const auto& [id, known] : segments) {
    const auto record = node.m->find(id);
    const bool gone = !record || record->state == wire::SegmentState::deleted;
    if (known.removed && !gone) return fail(fmt::format("node {}: removed segment {} lives", n, to_text(id)));
    if ((known.created || known.sealed) && gone && !known.may_go)
      return fail(fmt::format("node {}: segment {} was acknowledged and is lost", n, to_text(id)));
    if (known.sealed && record && record->state == wire::SegmentState::creating)
      return fail(fmt::format("node {}: the seal of {} was acknowledged and is lost", n, to_text(id)));
  }
}

void World::acknowledge(const Op& op) {
  if (nodes[static_cast<std::size_t>(op.node)].abandoned) return;
  if (const auto* create = std::get_if<ms::Create>(&op.command.what)) segments[create->record.id].created = true;
  if (const auto* seal = std::get_if<ms::Seal>(&op.command.what)) segments[seal->record.id].sealed = true;
  if (const auto* remove = std::get_if<ms::Remove>(&op.command.what)) segments[remove->id].removed = true;
  for (std::size_t n = 0; n < nodes.size() && ok(); ++n)
    if (leased(static_cast<int>(n))) check_acknowledged(static_cast<int>(n));
}

// A tombstone ends only when no member that is still on the roster holds a piece.
void World::on_output(int n, ms::RecordErased& erased) {
  note(fmt::format("node {} erases {}", n, to_text(erased.id)));
  Node& node = nodes[static_cast<std::size_t>(n)];
  if (node.abandoned) return;
  for (std::size_t other = 0; other < nodes.size(); ++other) {
    const Node& host = nodes[other];
    if (host.abandoned || ms::find_member(node.m->roster(), host.disk.self) == nullptr) continue;
    for (const auto& [piece, incarnation] : host.pieces)
      if (piece.segment == erased.id && incarnation == host.incarnation && segments[erased.id].removed)
        return fail(
            fmt::format("the tombstone of {} ended while node {} still holds a piece", to_text(erased.id), other));
  }
}

void World::check_quiet() {
  std::vector<ms::RecordRef> first;
  bool have = false;
  for (std::size_t n = 0; n < nodes.size() && ok(); ++n) {
    if (!nodes[n].m || nodes[n].gone) continue;
    const auto records = nodes[n].m->records();
    const bool same = std::equal(records.begin(), records.end(), first.begin(), first.end(),
                                 [](const auto& a, const auto& b) { return *a == *b; });
    if (have && !same) return fail(fmt::format("node {} has another registry than the first", n));
    first = records;
    have = true;
    check_acknowledged(static_cast<int>(n));
    for (const auto& record : records)
      if (record->state == wire::SegmentState::deleted)
        return fail(fmt::format("node {}: tombstone of {} stays though all are there", n, to_text(record->id)));
    for (const auto& [piece, incarnation] : nodes[n].pieces)
      if (!nodes[n].m->find(piece.segment) && segments[piece.segment].removed)
        return fail(fmt::format("node {} still holds piece {} of a removed segment", n, to_text(piece)));
  }
}

}  // namespace vrampool::sim
