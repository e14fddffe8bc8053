// Which node gets which part of a segment. Pure and deterministic: the same input gives the same pieces.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/limits.h"
#include "base/result.h"

namespace vrampool::allocator {

// `spread` deals stripes so that all nodes fill to the same share of their free space; `pack` fills the nearest
// node before the next; `local` takes the asker's node only; `nodes` spreads over the nodes that were named.
enum class PlacementMode : std::uint8_t { local, spread, pack, nodes };
std::string_view to_text(PlacementMode);
// "local", "spread", "pack"; "nodes" when names come with it. Errors: VP_INVALID lists the words.
Result<PlacementMode> parse_placement(std::string_view text);

// Stripes of `spread` and of everything with copies are at most this large, so that a part can be reloaded,
// verified or moved by itself. A segment with more pieces than kPiecesPerSegmentMax gets larger ones.
inline constexpr std::uint64_t kStripeBytesMax = 1ull << 30;
static_assert(kStripeBytesMin <= kStripeBytesMax && kStripeBytesMax <= kPieceBytesMax);

// A node that may take pieces. `link_cost`: 0 for the asker's own node, higher is farther.
struct Candidate {
  MemberNo member{};
  std::string name;
  std::uint64_t capacity_bytes = 0;
  std::uint64_t free_bytes = 0;
  std::uint32_t link_cost = 0;
};

struct PlacementRequest {
  PlacementMode mode = PlacementMode::spread;
  MemberNo local{};                           // the asker's node
  std::vector<MemberNo> nodes;                // for mode `nodes`
  std::uint64_t bytes = 0;                    // whole pages, not 0
  std::span<const std::uint64_t> cut_points;  // rising page multiples where a cut parts no tensor; may be empty
  std::uint8_t copies = 1;                    // 1: only the home copy
};

// Bytes [offset, +bytes) of the segment on `member`. Fits wire::Piece; ordinals count from 0: all home copies by
// offset, then all first replicas by offset, and so on. Copies of the same bytes are cut alike.
struct PlacedPiece {
  std::uint32_t ordinal = 0;
  MemberNo member{};
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint8_t copy = 0;
  bool operator==(const PlacedPiece&) const = default;
};

// Segments below kStripeBytesMin are one piece; no piece of a larger one is smaller, unless it is the rest at the end
// or a node's whole rest of free space.
// Errors: VP_NO_SPACE says how much is missing and which nodes have the most room; VP_NOT_FOUND for a named node
// that is no candidate; VP_INVALID for sizes and counts outside their range.
Result<std::vector<PlacedPiece>> place(const PlacementRequest& request, std::span<const Candidate> candidates);

}  // namespace vrampool::allocator
