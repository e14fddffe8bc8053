// Quorums: majorities, ties, and rosters that are changing.
#include "membership/quorum.h"

#include <doctest/doctest.h>

using namespace vrampool;
using namespace vrampool::membership;

namespace {
wire::RosterT roster_of(std::initializer_list<int> members, int init) {
  wire::RosterT roster;
  for (const int m : members) {
    roster.entries.push_back(std::make_unique<wire::RosterEntryT>());
    roster.entries.back()->member = static_cast<std::uint16_t>(m);
    roster.next_member = static_cast<std::uint16_t>(m + 1);
  }
  roster.init_member = static_cast<std::uint16_t>(init);
  return roster;
}
MemberSet set_of(std::initializer_list<int> members) {
  MemberSet set;
  for (const int m : members) set.insert(MemberNo{static_cast<std::uint16_t>(m)});
  return set;
}
}  // namespace

TEST_CASE("more than half is a quorum, half only with the init member") {
  const auto three = roster_of({1, 2, 3}, 1);
  CHECK(is_quorum(three, set_of({2, 3})));
  CHECK_FALSE(is_quorum(three, set_of({1})));
  const auto two = roster_of({1, 2}, 1);
  CHECK(is_quorum(two, set_of({1})));
  CHECK_FALSE(is_quorum(two, set_of({2})));
  CHECK(is_quorum(roster_of({1, 2, 3, 4}, 3), set_of({3, 4})));
  CHECK_FALSE(is_quorum(roster_of({1, 2, 3, 4}, 3), set_of({1, 2})));
}

TEST_CASE("members that are not on the roster do not count") {
  CHECK_FALSE(is_quorum(roster_of({1, 2, 3}, 1), set_of({1, 7, 8})));
}

TEST_CASE("while a member joins both rosters must agree") {
  wire::RosterEntryT newcomer;
  const auto joint = with_joining(roster_of({1, 2}, 1), newcomer);
  CHECK(is_joint(joint));
  CHECK_FALSE(is_quorum(joint, set_of({2, 3})));  // not of the old one
  CHECK_FALSE(is_quorum(joint, set_of({1})));     // not of the new one
  CHECK(is_quorum(joint, set_of({1, 2})));
  CHECK(is_quorum(finished(joint), set_of({2, 3})));
}

TEST_CASE("while the init member leaves the old roster still has its tie breaker") {
  const auto joint = with_leaving(roster_of({1, 2, 3}, 1), MemberNo{1}, MemberNo{2});
  CHECK_FALSE(is_quorum(joint, set_of({2})));
  CHECK(is_quorum(joint, set_of({2, 3})));
  const auto after = finished(joint);
  CHECK(is_quorum(after, set_of({2})));
  CHECK(was_forgotten(after, MemberNo{1}));
  CHECK_FALSE(was_forgotten(after, MemberNo{4}));
}

TEST_CASE("two quorums of one roster always meet") {
  for (int n = 1; n <= 6; ++n) {
    wire::RosterT roster;
    roster.init_member = 1;
    for (int m = 1; m <= n; ++m) {
      roster.entries.push_back(std::make_unique<wire::RosterEntryT>());
      roster.entries.back()->member = static_cast<std::uint16_t>(m);
    }
    for (unsigned a = 0; a < 1u << n; ++a)
      for (unsigned b = 0; b < 1u << n; ++b) {
        MemberSet left, right;
        for (int m = 1; m <= n; ++m) {
          if ((a >> (m - 1)) & 1) left.insert(MemberNo{static_cast<std::uint16_t>(m)});
          if ((b >> (m - 1)) & 1) right.insert(MemberNo{static_cast<std::uint16_t>(m)});
        }
        if (is_quorum(roster, left) && is_quorum(roster, right)) REQUIRE((a & b) != 0);
      }
  }
}

TEST_CASE("ids below the floor are used up, per creator and life") {
  auto roster = roster_of({1, 2}, 1);
  raise_floor(roster, {MemberNo{1}, Life{3}, 7});
  raise_floor(roster, {MemberNo{1}, Life{3}, 5});
  CHECK(below_floor(roster, {MemberNo{1}, Life{3}, 7}));
  CHECK(below_floor(roster, {MemberNo{1}, Life{2}, 99}));
  CHECK_FALSE(below_floor(roster, {MemberNo{1}, Life{3}, 8}));
  CHECK_FALSE(below_floor(roster, {MemberNo{1}, Life{4}, 1}));
  CHECK_FALSE(below_floor(roster, {MemberNo{2}, Life{3}, 1}));
}
