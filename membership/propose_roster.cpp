// Changes of the roster, in two steps: first both rosters need a quorum, then the new one alone.
#include <algorithm>

#include "base/mark.h"
#include "membership/core.h"

namespace vrampool::membership {

Core::Decision Core::decide_admit(const wire::ProposalT& p) {
  const wire::RosterT& roster = registry_.tail_roster();
  for (const auto& entry : roster.entries) {
    if (entry->forgotten || entry->node != p.node) continue;
    const auto* line = find_member(registry_.tail_view(), MemberNo{entry->member});
    if (entry->machine != p.machine || (line != nullptr && line->life != 0))
      return fail(
          VP_EXISTS,
          fmt::format("this node's id belongs to member {} ({}): forget that one first, or remove the copied id",
                      entry->member, entry->name));
    Decision d;
    d.member = MemberNo{entry->member};
    d.park = entry->joining;
    return d;
  }
  Decision d;
  d.park = true;
  if (is_joint(roster)) return d;
  if (roster.entries.size() >= kRosterMax || roster.next_member == UINT16_MAX)
    return fail(VP_NO_SPACE, "the roster is full: forget some members");
  wire::RosterEntryT entry;
  entry.node = p.node;
  entry.name = p.name;
  entry.machine = p.machine;
  entry.addresses = p.addresses;
  return change_roster(with_joining(roster, std::move(entry)));
}

Core::Decision Core::decide_forget(MemberNo asker, const wire::ProposalT& p) {
  const MemberNo member{p.member};
  const wire::RosterT& roster = registry_.tail_roster();
  const auto* entry = find_member(roster, member);
  if (entry == nullptr)
    return was_forgotten(roster, member) ? Decision{}
                                         : fail(VP_NOT_FOUND, fmt::format("member {} is not on the roster", p.member));
  Decision d;
  d.park = true;
  if (entry->leaving || is_joint(roster)) return d;
  if (member == self_) return fail(VP_BUSY, "this member coordinates: promote another one first");
  if (member != asker && alive_members(registry_.tail_view()).contains(member))
    return fail(VP_BUSY, fmt::format("member {} ({}) is alive: stop it first, or run `vrampool leave` there", p.member,
                                     entry->name));
  return change_roster(with_leaving(roster, member, self_));
}

// The live members must be a quorum of both rosters already: a newcomer does not decide about itself.
Core::Decision Core::change_roster(wire::RosterT joint) {
  if (!is_quorum(joint, alive_members(registry_.tail_view()))) {
    VP_MARK(roster_change_without_quorum);
    return fail(VP_BUSY,
                "too few members are alive to change the roster: start those that are off, or use promote --force");
  }
  Decision d;
  d.park = true;
  d.changes = true;
  d.change.version = next_version();
  joint.version = d.change.version;
  d.change.roster = std::make_unique<wire::RosterT>(std::move(joint));
  return d;
}

// Second step, when the first is committed. A leaving member gets no lease any more; what it has must have run out.
void Core::finish_roster_change() {
  const wire::RosterT& joint = registry_.tail_roster();
  if (!open() || !is_joint(joint)) return;
  if (leader_.joint != joint.version) {
    leader_.joint = joint.version;
    leader_.joint_since = now_;
  }
  if (leader_.recovering || !registry_.pending().empty()) return;
  const MemberSet alive = alive_members(registry_.tail_view());
  const bool may_hold_lease = std::any_of(joint.entries.begin(), joint.entries.end(), [&](const auto& e) {
    return e->leaving && alive.contains(MemberNo{e->member});
  });
  if (may_hold_lease && now_ < leader_.joint_since + options_.detection) return;
  wire::RosterT next = finished(joint);
  wire::ViewT view = registry_.tail_view();
  std::erase_if(view.members, [&](const auto& line) { return find_member(next, MemberNo{line->member}) == nullptr; });
  if (!is_quorum(next, alive_members(view))) return;
  VP_MARK(roster_change_finished);
  wire::ChangeT change;
  change.version = next_version();
  next.version = change.version;
  if (view.members.size() != registry_.tail_view().members.size()) {
    ++view.epoch.n;
    change.view = std::make_unique<wire::ViewT>(std::move(view));
  }
  change.roster = std::make_unique<wire::RosterT>(std::move(next));
  propose(std::move(change));
}

// Tombstones do not wait for members that are not on the roster any more.
void Core::forget_gone_hosts() {
  if (leader_.recovering || !registry_.pending().empty()) return;
  wire::ChangeT change;
  change.version = next_version();
  for (const auto& [id, record] : registry_.tail_records()) {
    if (record->state != wire::SegmentState::deleted) continue;
    wire::RecordT stone = *record;
    std::erase_if(stone.tombstone_waits_for,
                  [&](std::uint16_t host) { return find_member(registry_.tail_roster(), MemberNo{host}) == nullptr; });
    if (!stone.tombstone_waits_for.empty()) {
      if (stone.tombstone_waits_for != record->tombstone_waits_for) put(change, std::move(stone));
      continue;
    }
    VP_MARK(tombstone_waited_for_nobody);
    erase(change, id);
  }
  if (!change.records.empty() || !change.erased.empty()) propose(std::move(change));
}

// Ends a tombstone; what remains is that this creator's ids up to here are used up.
void Core::erase(wire::ChangeT& change, const SegmentId& id) const {
  change.erased.push_back(std::make_unique<wire::SegmentKeyT>());
  change.erased.back()->id = id;
  if (!change.roster) change.roster = std::make_unique<wire::RosterT>(registry_.tail_roster());
  raise_floor(*change.roster, id);
}

void Core::retry_parked() {
  std::vector<Parked> parked = std::exchange(leader_.parked, {});
  for (Parked& entry : parked) carry_out(entry.asker, entry.request, entry.proposal);
}

}  // namespace vrampool::membership
