// Quorums of plain and of joint rosters.
#include "membership/quorum.h"

#include <algorithm>

#include "base/mark.h"

namespace vrampool::membership {

namespace {
bool is_quorum_of(const MemberSet& roster, MemberNo tie_breaker, const MemberSet& set) {
  const auto present = static_cast<std::size_t>(
      std::count_if(roster.begin(), roster.end(), [&](MemberNo m) { return set.contains(m); }));
  if (2 * present == roster.size()) VP_MARK(quorum_tie);
  if (2 * present == roster.size() && VP_BUG(2)) return true;
  return 2 * present > roster.size() || (2 * present == roster.size() && set.contains(tie_breaker));
}
}  // namespace

const wire::RosterEntryT* find_member(const wire::RosterT& roster, MemberNo member) {
  for (const auto& entry : roster.entries)
    if (entry->member == member.value && !entry->forgotten) return entry.get();
  return nullptr;
}

MemberSet members_of(const wire::RosterT& roster) {
  MemberSet set;
  for (const auto& entry : roster.entries)
    if (!entry->forgotten) set.insert(MemberNo{entry->member});
  return set;
}

bool is_joint(const wire::RosterT& roster) {
  return std::any_of(roster.entries.begin(), roster.entries.end(),
                     [](const auto& e) { return e->joining || e->leaving; });
}

bool is_quorum(const wire::RosterT& roster, const MemberSet& set) {
  MemberSet old_members;
  MemberSet new_members;
  for (const auto& entry : roster.entries) {
    if (entry->forgotten) continue;
    if (!entry->joining) old_members.insert(MemberNo{entry->member});
    if (!entry->leaving) new_members.insert(MemberNo{entry->member});
  }
  if (!is_quorum_of(new_members, MemberNo{roster.init_member}, set)) return false;
  return !is_joint(roster) || VP_BUG(18) || is_quorum_of(old_members, MemberNo{roster.old_init_member}, set);
}

bool was_forgotten(const wire::RosterT& roster, MemberNo member) {
  return member.value != 0 && member.value < roster.next_member && find_member(roster, member) == nullptr;
}

void raise_floor(wire::RosterT& roster, const SegmentId& ended) {
  for (auto& floor : roster.floors) {
    if (floor->id.member != ended.member) continue;
    floor->id = std::max(floor->id, ended);  // by life, then by count
    return;
  }
  roster.floors.push_back(std::make_unique<wire::SegmentKeyT>());
  roster.floors.back()->id = ended;
}

bool below_floor(const wire::RosterT& roster, const SegmentId& id) {
  return std::any_of(roster.floors.begin(), roster.floors.end(),
                     [&](const auto& floor) { return floor->id.member == id.member && id <= floor->id; });
}

const wire::ViewMemberT* find_member(const wire::ViewT& view, MemberNo member) {
  for (const auto& line : view.members)
    if (line->member == member.value) return line.get();
  return nullptr;
}

bool is_alive(const wire::ViewT& view, Sender sender) {
  const auto* line = find_member(view, sender.member);
  return line != nullptr && line->state == wire::MemberState::alive && line->life == sender.life.value;
}

MemberSet alive_members(const wire::ViewT& view) {
  MemberSet set;
  for (const auto& line : view.members)
    if (line->state == wire::MemberState::alive) set.insert(MemberNo{line->member});
  return set;
}

wire::RosterT with_joining(const wire::RosterT& roster, wire::RosterEntryT newcomer) {
  wire::RosterT next = roster;
  next.old_init_member = roster.init_member;
  newcomer.member = next.next_member++;
  newcomer.joining = true;
  next.entries.push_back(std::make_unique<wire::RosterEntryT>(std::move(newcomer)));
  return next;
}

wire::RosterT with_leaving(const wire::RosterT& roster, MemberNo leaving, MemberNo coordinator) {
  wire::RosterT next = roster;
  next.old_init_member = roster.init_member;
  if (next.init_member == leaving.value) next.init_member = coordinator.value;
  for (auto& entry : next.entries)
    if (entry->member == leaving.value) entry->leaving = true;
  return next;
}

wire::RosterT finished(const wire::RosterT& joint) {
  wire::RosterT next = joint;
  std::erase_if(next.entries, [](const auto& e) { return e->leaving; });
  for (auto& entry : next.entries) entry->joining = false;
  next.old_init_member = 0;
  std::erase_if(next.floors, [&](const auto& floor) { return find_member(next, floor->id.member) == nullptr; });
  return next;
}

wire::RosterT without(const wire::RosterT& roster, const MemberSet& abandoned, MemberNo coordinator) {
  wire::RosterT next = roster;
  std::erase_if(next.entries, [&](const auto& e) { return abandoned.contains(MemberNo{e->member}); });
  for (auto& entry : next.entries) entry->joining = entry->leaving = false;
  next.old_init_member = 0;
  if (abandoned.contains(MemberNo{next.init_member})) next.init_member = coordinator.value;
  return next;
}

}  // namespace vrampool::membership
