#include "allocator/placement.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <tuple>

#include "base/text.h"

namespace vrampool::allocator {
namespace {

constexpr std::uint64_t page_down(std::uint64_t n) { return n / kPageBytes * kPageBytes; }
constexpr std::uint64_t page_up(std::uint64_t n) { return page_down(n + kPageBytes - 1); }

struct Node {
  const Candidate* candidate = nullptr;
  std::uint64_t room = 0;   // whole pages that were free at the start
  std::uint64_t taken = 0;  // by this segment
  bool home_here = false;   // `local`: takes every home copy
  std::uint64_t left() const { return room - taken; }
};

// Which node a stripe goes to first.
enum class Order : std::uint8_t { even, nearest, emptiest };

// True if `a` should take the next `bytes` rather than `b`. Total: ends at the member number.
bool before(const Node& a, const Node& b, std::uint64_t bytes, Order order) {
  if (a.home_here != b.home_here) return a.home_here;
  if (order == Order::even) {
    // Share of the room that would be taken, compared without dividing. Rooms are below 2^58 pages.
    const auto x = static_cast<unsigned __int128>(a.taken + bytes) * b.room;
    const auto y = static_cast<unsigned __int128>(b.taken + bytes) * a.room;
    if (x != y) return x < y;
  }
  if (order == Order::emptiest && a.left() != b.left()) return a.left() > b.left();
  if (a.candidate->link_cost != b.candidate->link_cost) return a.candidate->link_cost < b.candidate->link_cost;
  if (a.room != b.room) return a.room > b.room;
  return a.candidate->member < b.candidate->member;
}

class Placer {
 public:
  Placer(const PlacementRequest& request, std::vector<Node> nodes, Order order)
      : request_(request), nodes_(std::move(nodes)), order_(order), stripe_(stripe_bytes()) {}

  // Nothing if the nodes' room does not do.
  std::optional<std::vector<PlacedPiece>> run() {
    for (std::uint64_t offset = 0; offset < request_.bytes;) {
      std::uint64_t bytes = cut(offset);
      const auto chosen = choose(bytes, request_.bytes - offset);
      if (chosen.empty()) return std::nullopt;
      for (std::size_t copy = 0; copy < chosen.size(); ++copy) {
        nodes_[chosen[copy]].taken += bytes;
        pieces_.push_back({0, nodes_[chosen[copy]].candidate->member, offset, bytes, static_cast<std::uint8_t>(copy)});
      }
      offset += bytes;
    }
    number_pieces();
    return std::move(pieces_);
  }

 private:
  bool one_piece() const { return request_.bytes < kStripeBytesMin; }

  std::uint64_t stripe_bytes() const {
    const bool whole =
        nodes_.size() == 1 || request_.mode == PlacementMode::local || request_.mode == PlacementMode::pack;
    if (whole && request_.copies == 1) return kPieceBytesMax;
    // Four stripes per node, so that a scan reads from all of them at once. A cut may halve a stripe.
    const std::uint64_t even = page_up(request_.bytes / (nodes_.size() * 4));
    const std::uint64_t least =
        page_up(request_.bytes * 2 * request_.copies / (kPiecesPerSegmentMax - 2 * kMembersAliveMax));
    return std::max(std::clamp(even, kStripeBytesMin, kStripeBytesMax), least);
  }

  // Bytes of the stripe that starts at `offset`: up to a cut point if one lies in its second half.
  std::uint64_t cut(std::uint64_t offset) const {
    const std::uint64_t left = request_.bytes - offset;
    if (left <= stripe_) return left;
    const auto& cuts = request_.cut_points;
    const auto above = std::upper_bound(cuts.begin(), cuts.end(), offset + stripe_);
    if (above == cuts.begin()) return stripe_;
    const std::uint64_t at = *(above - 1);
    return at >= offset + std::max(stripe_ / 2, kStripeBytesMin) ? at - offset : stripe_;
  }

  // The nodes of all copies of the next stripe, the home first. Makes `bytes` smaller if nothing else helps.
  std::vector<std::size_t> choose(std::uint64_t& bytes, std::uint64_t left) {
    std::vector<std::size_t> order(nodes_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](auto a, auto b) { return before(nodes_[a], nodes_[b], bytes, order_); });
    if (order_ == Order::nearest) shrink_to_nearest(order, bytes, left);
    auto chosen = with_room(order, bytes);
    if (!chosen.empty() || one_piece()) return chosen;
    bytes = std::min(bytes, room_for_all_copies());
    return bytes == 0 ? chosen : with_room(order, bytes);
  }
  // `pack` fills the nearest node that has room for a stripe before it takes the next.
  void shrink_to_nearest(const std::vector<std::size_t>& order, std::uint64_t& bytes, std::uint64_t left) const {
    if (one_piece() || request_.copies > 1) return;
    for (const auto i : order)
      if (nodes_[i].left() >= std::min(kStripeBytesMin, left)) return void(bytes = std::min(bytes, nodes_[i].left()));
  }
  std::vector<std::size_t> with_room(const std::vector<std::size_t>& order, std::uint64_t bytes) const {
    std::vector<std::size_t> chosen;
    for (const auto i : order)
      if (nodes_[i].left() >= bytes && chosen.size() < request_.copies) chosen.push_back(i);
    if (chosen.size() < request_.copies) chosen.clear();
    return chosen;
  }
  // The most that as many nodes as there are copies can all take.
  std::uint64_t room_for_all_copies() const {
    std::vector<std::uint64_t> rooms;
    for (const auto& n : nodes_) rooms.push_back(n.left());
    std::sort(rooms.begin(), rooms.end(), std::greater<>());
    return rooms[request_.copies - 1u];
  }
  void number_pieces() {
    std::sort(pieces_.begin(), pieces_.end(), [](const PlacedPiece& a, const PlacedPiece& b) {
      return std::tie(a.copy, a.offset) < std::tie(b.copy, b.offset);
    });
    for (std::size_t i = 0; i < pieces_.size(); ++i) pieces_[i].ordinal = static_cast<std::uint32_t>(i);
  }

  const PlacementRequest& request_;
  std::vector<Node> nodes_;
  Order order_;
  std::uint64_t stripe_;
  std::vector<PlacedPiece> pieces_;
};

Node node_of(const Candidate& c) { return {&c, page_down(std::min(c.free_bytes, kPoolSlotBytes)), 0, false}; }

const Candidate* find(std::span<const Candidate> candidates, MemberNo member) {
  const auto at =
      std::find_if(candidates.begin(), candidates.end(), [&](const Candidate& c) { return c.member == member; });
  return at == candidates.end() ? nullptr : &*at;
}

Result<std::vector<Node>> nodes_for(const PlacementRequest& request, std::span<const Candidate> candidates) {
  std::vector<Node> nodes;
  if (request.mode == PlacementMode::nodes) {
    for (const auto member : request.nodes) {
      const Candidate* c = find(candidates, member);
      if (c == nullptr) return error(VP_NOT_FOUND, "node {} was named but gives no memory now", member.value);
      const bool twice = std::any_of(nodes.begin(), nodes.end(), [&](const Node& n) { return n.candidate == c; });
      if (!twice) nodes.push_back(node_of(*c));
    }
    return nodes;
  }
  for (const auto& c : candidates) {
    const bool is_local = c.member == request.local;
    if (request.mode == PlacementMode::local && request.copies == 1 && !is_local) continue;
    nodes.push_back(node_of(c));
    nodes.back().home_here = request.mode == PlacementMode::local && is_local;
  }
  return nodes;
}

Status check(const PlacementRequest& request, const std::vector<Node>& nodes) {
  if (request.bytes == 0 || request.bytes % kPageBytes != 0 || request.bytes > kPoolSlotBytes)
    return error(VP_INVALID, "a segment of {} bytes; whole pages of {} are placed, at most {}", request.bytes,
                 kPageBytes, format_bytes(kPoolSlotBytes));
  if (request.copies == 0) return error(VP_INVALID, "0 copies; 1 is the least");
  if (nodes.empty()) return error(VP_NO_SPACE, "no node gives memory now; see vrampool status");
  if (request.copies > nodes.size())
    return error(VP_NO_SPACE, "{} copies need as many nodes, and {} can be used", request.copies, nodes.size());
  return {};
}

Error no_space(const PlacementRequest& request, std::vector<Node> nodes) {
  std::uint64_t room = 0;
  for (const auto& n : nodes) room += n.room;
  std::sort(nodes.begin(), nodes.end(), [](const Node& a, const Node& b) { return before(a, b, 0, Order::emptiest); });
  std::string most;
  for (std::size_t i = 0; i < std::min<std::size_t>(nodes.size(), 3); ++i)
    most += fmt::format("{}{} {} free of {}", i == 0 ? "" : ", ", nodes[i].candidate->name, format_bytes(nodes[i].room),
                        format_bytes(nodes[i].candidate->capacity_bytes));
  const auto copies = request.copies > 1 ? fmt::format(" in {} copies", request.copies) : std::string();
  const std::uint64_t need = request.bytes * request.copies;
  const auto missing = need > room ? fmt::format("{} missing", format_bytes(need - room))
                                   : std::string("enough in all, but not where it would have to be");
  const char* hint = request.mode == PlacementMode::local ? "; try --place spread" : "";
  return error(VP_NO_SPACE, "no room for {}{}: {}; most room: {}{}", format_bytes(request.bytes), copies, missing, most,
               hint);
}

}  // namespace

std::string_view to_text(PlacementMode mode) {
  switch (mode) {
    case PlacementMode::local:
      return "local";
    case PlacementMode::spread:
      return "spread";
    case PlacementMode::pack:
      return "pack";
    case PlacementMode::nodes:
      return "nodes";
  }
  return "?";
}

Result<PlacementMode> parse_placement(std::string_view text) {
  for (const auto mode : {PlacementMode::local, PlacementMode::spread, PlacementMode::pack, PlacementMode::nodes})
    if (text == to_text(mode)) return mode;
  return error(VP_INVALID, "\"{}\" is no placement; use local, spread, pack or nodes", text);
}

Result<std::vector<PlacedPiece>> place(const PlacementRequest& request, std::span<const Candidate> candidates) {
  VP_TRY(nodes, nodes_for(request, candidates));
  VP_CHECK(check(request, nodes));
  if (request.mode == PlacementMode::local) {
    const auto home = std::find_if(nodes.begin(), nodes.end(), [](const Node& n) { return n.home_here; });
    if (home == nodes.end()) return error(VP_NO_SPACE, "this node gives no memory; try --place spread");
    if (home->room < request.bytes) return no_space(request, {*home});
  }
  const Order order = request.mode == PlacementMode::pack ? Order::nearest : Order::even;
  auto pieces = Placer(request, nodes, order).run();
  // An even deal may leave two copies without two nodes; taking the emptiest first never does needlessly.
  if (!pieces && request.copies > 1) pieces = Placer(request, nodes, Order::emptiest).run();
  if (!pieces) return no_space(request, nodes);
  return std::move(*pieces);
}

}  // namespace vrampool::allocator
