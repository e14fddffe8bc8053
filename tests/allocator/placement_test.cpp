// Placement: every byte once per copy, never more than a node has, cuts where they hurt least, and clear refusals.
#include "allocator/placement.h"

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <set>

using namespace vrampool;
using namespace vrampool::allocator;

namespace {

constexpr std::uint64_t kMiB = 1ull << 20, kGiB = 1ull << 30;

Candidate node(std::uint16_t member, std::uint64_t free, std::uint32_t cost = 1) {
  return {MemberNo{member}, "mac-" + std::to_string(member), std::max(free, kGiB), free, cost};
}
std::vector<PlacedPiece> placed(const PlacementRequest& r, const std::vector<Candidate>& nodes) {
  auto pieces = place(r, nodes);
  REQUIRE_MESSAGE(pieces.ok(), (pieces.ok() ? "" : pieces.error().message));
  return *pieces;
}
Error refused(const PlacementRequest& r, const std::vector<Candidate>& nodes) {
  auto pieces = place(r, nodes);
  REQUIRE_FALSE(pieces.ok());
  return pieces.error();
}
std::map<std::uint16_t, std::uint64_t> bytes_by_node(const std::vector<PlacedPiece>& pieces) {
  std::map<std::uint16_t, std::uint64_t> sum;
  for (const auto& p : pieces) sum[p.member.value] += p.bytes;
  return sum;
}

}  // namespace

TEST_CASE("local takes this node only") {
  const PlacementRequest r{.mode = PlacementMode::local, .local = MemberNo{2}, .bytes = 5 * kGiB};
  const auto pieces = placed(r, {node(1, 100 * kGiB), node(2, 6 * kGiB, 0)});
  REQUIRE(pieces.size() == 1);
  CHECK(pieces[0] == PlacedPiece{0, MemberNo{2}, 0, 5 * kGiB, 0});
  const auto e = refused(r, {node(1, 100 * kGiB), node(2, 4 * kGiB, 0)});
  CHECK(e.code == VP_NO_SPACE);
  CHECK(e.message == "no room for 5 GiB: 1 GiB missing; most room: mac-2 4 GiB free of 4 GiB; try --place spread");
}

TEST_CASE("spread fills all nodes to the same share") {
  const PlacementRequest r{.bytes = 30 * kGiB};
  const auto sum = bytes_by_node(placed(r, {node(1, 40 * kGiB), node(2, 20 * kGiB)}));
  CHECK(sum.at(1) >= 19 * kGiB);
  CHECK(sum.at(1) <= 21 * kGiB);
}

TEST_CASE("a scan of a spread segment meets all nodes early") {
  const PlacementRequest r{.bytes = 32 * kGiB};
  const auto pieces = placed(r, {node(1, 64 * kGiB), node(2, 64 * kGiB), node(3, 64 * kGiB), node(4, 64 * kGiB)});
  std::set<std::uint16_t> first;
  for (std::size_t i = 0; i < 4; ++i) first.insert(pieces[i].member.value);
  CHECK(first.size() == 4);
}

TEST_CASE("pack fills the nearest node before the next") {
  const PlacementRequest r{.mode = PlacementMode::pack, .local = MemberNo{3}, .bytes = 10 * kGiB};
  const auto pieces = placed(r, {node(1, 100 * kGiB, 2), node(2, 4 * kGiB, 1), node(3, 3 * kGiB, 0)});
  REQUIRE(pieces.size() == 3);
  CHECK(pieces[0] == PlacedPiece{0, MemberNo{3}, 0, 3 * kGiB, 0});
  CHECK(pieces[1] == PlacedPiece{1, MemberNo{2}, 3 * kGiB, 4 * kGiB, 0});
  CHECK(pieces[2] == PlacedPiece{2, MemberNo{1}, 7 * kGiB, 3 * kGiB, 0});
}

TEST_CASE("named nodes share the segment, others get nothing") {
  PlacementRequest r{.mode = PlacementMode::nodes, .nodes = {MemberNo{1}, MemberNo{3}, MemberNo{1}}, .bytes = 8 * kGiB};
  const std::vector nodes{node(1, 10 * kGiB), node(2, 100 * kGiB), node(3, 10 * kGiB)};
  const auto sum = bytes_by_node(placed(r, nodes));
  CHECK(sum == std::map<std::uint16_t, std::uint64_t>{{1, 4 * kGiB}, {3, 4 * kGiB}});
  r.nodes = {MemberNo{9}};
  CHECK(refused(r, nodes).code == VP_NOT_FOUND);
  r.nodes = {MemberNo{1}};
  CHECK(placed(r, nodes).size() == 1);
}

TEST_CASE("a small segment is one piece") {
  const PlacementRequest r{.bytes = 63 * kMiB};
  CHECK(placed(r, {node(1, kGiB), node(2, kGiB)}).size() == 1);
  CHECK(refused(r, {node(1, 60 * kMiB), node(2, 60 * kMiB)}).message.find("enough in all, but not where") !=
        std::string::npos);
}

TEST_CASE("stripes end at cut points where there is one") {
  std::vector<std::uint64_t> cuts;
  for (std::uint64_t at = 70 * kMiB; at < 2 * kGiB; at += 70 * kMiB) cuts.push_back(at);
  const PlacementRequest r{.bytes = 2 * kGiB, .cut_points = cuts};
  const auto pieces = placed(r, {node(1, 8 * kGiB), node(2, 8 * kGiB)});
  CHECK(pieces.size() > 4);
  for (const auto& p : pieces)
    if (p.offset != 0) CHECK(std::binary_search(cuts.begin(), cuts.end(), p.offset));
}

TEST_CASE("copies lie on distinct nodes and are cut alike") {
  const PlacementRequest r{.bytes = 4 * kGiB, .copies = 2};
  const auto pieces = placed(r, {node(1, 10 * kGiB), node(2, 10 * kGiB), node(3, 10 * kGiB)});
  const std::size_t half = pieces.size() / 2;
  for (std::size_t i = 0; i < half; ++i) {
    CHECK(pieces[i].copy == 0);
    CHECK(pieces[i + half].copy == 1);
    CHECK(pieces[i].offset == pieces[i + half].offset);
    CHECK(pieces[i].bytes == pieces[i + half].bytes);
    CHECK(pieces[i].member != pieces[i + half].member);
  }
  CHECK(refused({.bytes = kGiB, .copies = 2}, {node(1, 10 * kGiB)}).message.find("2 copies need as many nodes") !=
        std::string::npos);
}

TEST_CASE("local with a copy keeps the home here") {
  const PlacementRequest r{.mode = PlacementMode::local, .local = MemberNo{1}, .bytes = 3 * kGiB, .copies = 2};
  for (const auto& p : placed(r, {node(1, 3 * kGiB, 0), node(2, 9 * kGiB)})) CHECK(p.member.value == p.copy + 1);
}

TEST_CASE("copies find their nodes when one node is large") {
  // Each stripe must have one copy on the large node.
  const PlacementRequest r{.bytes = 8 * kGiB, .copies = 2};
  CHECK(place(r, std::vector{node(1, 8 * kGiB), node(2, 4 * kGiB), node(3, 4 * kGiB)}).ok());
}

TEST_CASE("no space says how much is missing and who has the most room") {
  const auto e = refused({.bytes = 10 * kGiB}, {node(1, kGiB), node(2, 3 * kGiB), node(3, 2 * kGiB), node(4, 0)});
  CHECK(e.code == VP_NO_SPACE);
  CHECK(e.message ==
        "no room for 10 GiB: 4 GiB missing; most room: mac-2 3 GiB free of 3 GiB, mac-3 2 GiB free of 2 GiB, mac-1 1 "
        "GiB free of 1 GiB");
  CHECK(refused({.bytes = kGiB}, {}).message.find("no node gives memory") != std::string::npos);
  CHECK(refused({.bytes = 5}, {node(1, kGiB)}).code == VP_INVALID);
  CHECK(refused({.bytes = 0}, {node(1, kGiB)}).code == VP_INVALID);
  CHECK(refused({.bytes = kGiB, .copies = 0}, {node(1, kGiB)}).code == VP_INVALID);
}

TEST_CASE("a segment of many terabytes stays below the limit of pieces") {
  std::vector<Candidate> nodes;
  for (std::uint16_t i = 1; i <= 16; ++i) nodes.push_back(node(i, 1024 * kGiB));
  CHECK(placed({.bytes = 8000 * kGiB, .copies = 2}, nodes).size() <= kPiecesPerSegmentMax);
}

TEST_CASE("words for placements are read back") {
  for (const auto mode : {PlacementMode::local, PlacementMode::spread, PlacementMode::pack, PlacementMode::nodes})
    CHECK(*parse_placement(to_text(mode)) == mode);
  CHECK(parse_placement("everywhere").error().message.find("local, spread, pack") != std::string::npos);
}

TEST_CASE("any placement covers every byte once per copy within the nodes' room") {
  CHECK(rc::check([] {
    std::vector<Candidate> nodes;
    std::uint64_t room = 0;
    const auto count = *rc::gen::inRange<std::uint16_t>(1, 7);
    for (std::uint16_t i = 1; i <= count; ++i) {
      nodes.push_back(node(i, *rc::gen::inRange<std::uint64_t>(0, 40) * 97 * kMiB, *rc::gen::inRange(0u, 3u)));
      room += nodes.back().free_bytes / kPageBytes * kPageBytes;
    }
    PlacementRequest r;
    r.mode = *rc::gen::element(PlacementMode::local, PlacementMode::spread, PlacementMode::pack);
    r.local = MemberNo{1};
    r.bytes = kPageBytes * *rc::gen::inRange<std::uint64_t>(1, 500'000);
    r.copies = *rc::gen::inRange<std::uint8_t>(1, 4);
    std::vector<std::uint64_t> cuts;
    for (auto at = *rc::gen::inRange<std::uint64_t>(1, 5000) * kPageBytes; at < r.bytes;
         at += at / 3 / kPageBytes * kPageBytes + kPageBytes)
      cuts.push_back(at);
    r.cut_points = cuts;
    const auto pieces = place(r, nodes);
    if (!pieces.ok()) {
      RC_ASSERT(pieces.error().code == VP_NO_SPACE);
      // One copy that may be cut always finds its room.
      if (r.copies == 1 && r.mode != PlacementMode::local && r.bytes >= kStripeBytesMin) RC_ASSERT(room < r.bytes);
      return;
    }
    RC_ASSERT(*pieces == *place(r, nodes));
    RC_ASSERT(pieces->size() <= kPiecesPerSegmentMax);
    std::vector<std::uint64_t> end(r.copies);
    std::map<std::uint64_t, std::set<MemberNo>> holders;
    for (std::size_t i = 0; i < pieces->size(); ++i) {
      const auto& p = (*pieces)[i];
      RC_ASSERT(p.ordinal == i);
      RC_ASSERT(p.offset == end.at(p.copy));
      RC_ASSERT(p.bytes > 0u);
      RC_ASSERT(p.offset % kPageBytes == 0u);
      RC_ASSERT(holders[p.offset].insert(p.member).second);
      end[p.copy] += p.bytes;
    }
    for (const auto e : end) RC_ASSERT(e == r.bytes);
    for (const auto& [member, bytes] : bytes_by_node(*pieces)) RC_ASSERT(bytes <= nodes[member - 1u].free_bytes);
  }));
}
