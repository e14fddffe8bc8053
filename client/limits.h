// Every bound of the SDK, named once, with its reason.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/limits.h"
#include "base/time.h"

namespace vrampool::client {

inline constexpr std::size_t kSessionsPerProcessMax = 64;
// As many views as the daemon grants one session; segments and tokens are cheap.
inline constexpr std::size_t kViewHandlesMax = kViewsPerSessionMax * 4;
inline constexpr std::size_t kSegmentHandlesMax = 1 << 16;
inline constexpr std::size_t kTokenHandlesMax = 1 << 16;

// Reads beyond this go to the bulk channel, where a mover serves them: they would hold up the faults of others.
inline constexpr std::uint64_t kPageChannelBytesMax = 128 * 1024;
// One message; chunks are cut at multiples of it, so that none touches more than kPagesPerMessageMax pages.
inline constexpr std::uint64_t kChunkBytes = kPagesPerMessageMax * kPageBytes;
// Fewer than the answers that the daemon queues for one connection: beyond those it hangs up.
inline constexpr std::size_t kPageRequestsMax = 64;
inline constexpr std::size_t kBulkRequestsMax = 16;
static_assert(kBulkRequestsMax * kChunkBytes == 16u << 20, "the documented 16 MiB in flight");
// A request that the daemon refused as busy is sent again when another one ends, or after this.
inline constexpr Duration kAskAgain = Duration::millis(5);

// Pages of a segment being created that were written in part only.
inline constexpr std::size_t kPartialPagesMax = 64;
inline constexpr std::size_t kPinsPerSegmentMax = 4096;
inline constexpr std::size_t kLossesWaitingMax = 256;

// How the service thread looks for a daemon that went away, and how often it looks at deadlines otherwise.
inline constexpr Duration kReconnectEvery = Duration::millis(50);
inline constexpr Duration kServiceTick = Duration::millis(500);
inline constexpr Duration kAttachDeadline = Duration::millis(kConnectDeadlineMs);
// An answer to vp_map_status's question whether a loss is on its way.
inline constexpr Duration kStatusDeadline = Duration::millis(500);
// "As long as the daemon lives": resident maps, pins, waiting prefetches.
inline constexpr Duration kNoDeadline = Duration::seconds(30ll * 24 * 3600);

}  // namespace vrampool::client
