// Cuts a view into parts: what can be mapped straight from pieces of this node, and what must fault.
#pragma once

#include <cstdint>
#include <vector>

#include "service/data/data_loop.h"

namespace vrampool::service::data {

// A shorter run that is only a part of its piece is not worth a mapping of its own.
inline constexpr std::uint64_t kDirectBytesMin = 32ull << 20;

// Parts in order, without gaps, at most kDescriptorsPerMessageMax: where there would be more, the shortest direct ones
// become part of the cache. object_offset of a direct part counts in its piece, of a cache part in the segment.
std::vector<wire::ViewPartT> plan_parts(DataLoop&, SegmentId, std::uint64_t offset, std::uint64_t bytes);

}  // namespace vrampool::service::data
