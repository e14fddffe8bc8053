// Reading rosters and views: who is on it, who is alive, and what a quorum is.
//
// Threads: pure.
#pragma once

#include <set>

#include "membership/durable.h"

namespace vrampool::membership {

using MemberSet = std::set<MemberNo>;

const wire::RosterEntryT* find_member(const wire::RosterT&, MemberNo);  // null: not on it
MemberSet members_of(const wire::RosterT&);
bool is_joint(const wire::RosterT&);  // a change is under way: two quorums are needed
// More than half, or half with the init member. Of a joint roster: of the old and of the new one.
bool is_quorum(const wire::RosterT&, const MemberSet&);
// The number was given once and is not on the roster any more.
bool was_forgotten(const wire::RosterT&, MemberNo);

// The floors of ids that may be created.
void raise_floor(wire::RosterT&, const SegmentId& ended);
bool below_floor(const wire::RosterT&, const SegmentId&);

const wire::ViewMemberT* find_member(const wire::ViewT&, MemberNo);
bool is_alive(const wire::ViewT&, Sender);
MemberSet alive_members(const wire::ViewT&);

// The steps of a change of the roster.
wire::RosterT with_joining(const wire::RosterT&, wire::RosterEntryT newcomer);
wire::RosterT with_leaving(const wire::RosterT&, MemberNo leaving, MemberNo coordinator);
wire::RosterT finished(const wire::RosterT& joint);
// Force: the abandoned are gone at once, any change under way ends.
wire::RosterT without(const wire::RosterT&, const MemberSet& abandoned, MemberNo coordinator);

}  // namespace vrampool::membership
