// What to do with the pieces that a node finds in its memory, given what the registry says. A report of a piece never
// creates or alters a record.
//
// Threads: pure.
#pragma once

#include <vector>

#include "base/time.h"
#include "membership/machine.h"

namespace vrampool::membership {

// A piece without a record is kept this long before it is freed: its record may still arrive.
inline constexpr Duration kOrphanKept = Duration::seconds(3600);

enum class PieceVerdict : std::uint8_t {
  keep,    // a live record names it here
  free,    // tombstone, or an orphan whose time is over
  orphan,  // no record names it here; never served by name, kept kOrphanKept from `found`
  void_,   // made in another incarnation: the bytes are gone, drop the entry
};

struct PieceFound {
  PieceId id{};
  Incarnation incarnation{};
  Instant found{};  // when this life first saw it
};

// `found` in order; the answer has one verdict per piece. While the registry is not current nothing becomes free for
// want of a record.
std::vector<PieceVerdict> reconcile(const Machine& machine, Incarnation own, const std::vector<PieceFound>& found,
                                    Instant now);

}  // namespace vrampool::membership
