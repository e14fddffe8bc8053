// Maps ranges of a segment: asks the daemon, stitches the parts together, hands it the fault source.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "client/segment.h"
#include "client/view.h"

namespace vrampool::client {

struct Span {
  std::uint64_t offset = 0, bytes = 0;
};

struct MapWish {
  std::vector<Span> spans;  // what the application asked for, in its order
  bool lazy = false;
  vp_on_loss on_loss = VP_ON_LOSS_POISON;
  Duration deadline = kNoDeadline;
};

// Few page-aligned runs that hold all spans. Lazy: one run, because untouched pages cost nothing.
// Resident: spans that share or adjoin pages are joined, nothing else is brought in.
std::vector<Span> runs_of(const std::vector<Span>& spans, bool lazy, std::uint64_t granule);

// Blocking. The view is known to the session. Errors: see vp_map.
Result<std::shared_ptr<View>> map_segment(const std::shared_ptr<Segment>& segment, const MapWish& wish,
                                          std::vector<vp_range>& ranges);
// Unmaps, and tells the daemon if it is there.
void unmap_view(const std::shared_ptr<View>& view);

}  // namespace vrampool::client
