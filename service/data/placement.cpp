#include "service/data/placement.h"

#include <algorithm>
#include <limits>

namespace vrampool::service::data {
namespace {

// Lower is better.
std::uint32_t rank(const wire::PieceT& p, MemberNo self, const std::function<bool(MemberNo)>& alive) {
  const MemberNo node{p.node};
  if (node == self) return 0;
  return alive(node) ? 1u + p.copy : 1000u + p.copy;
}

}  // namespace

Placement::Placement(const wire::RecordT& record, MemberNo self, const std::function<bool(MemberNo)>& alive)
    : bytes_(record.bytes) {
  std::vector<const wire::PieceT*> sorted;
  for (const auto& p : record.pieces)
    if (p && p->bytes != 0) sorted.push_back(p.get());
  std::sort(sorted.begin(), sorted.end(), [&](auto* a, auto* b) {
    return a->offset != b->offset ? a->offset < b->offset : rank(*a, self, alive) < rank(*b, self, alive);
  });
  std::uint64_t at = 0;
  for (const auto* p : sorted) {
    if (p->offset >= bytes_ || p->offset < at) continue;  // another copy of what is covered
    if (p->offset > at) runs_.push_back({at, p->offset - at, {}, 0});
    runs_.push_back({p->offset, std::min(p->bytes, bytes_ - p->offset), MemberNo{p->node}, p->ordinal});
    at = runs_.back().offset + runs_.back().bytes;
  }
  if (at < bytes_) runs_.push_back({at, bytes_ - at, {}, 0});
}

const Placement::Run& Placement::at(std::uint64_t offset) const {
  VP_ASSERT(offset < bytes_);
  const auto it =
      std::upper_bound(runs_.begin(), runs_.end(), offset, [](std::uint64_t o, const Run& r) { return o < r.offset; });
  return *std::prev(it);
}

}  // namespace vrampool::service::data
