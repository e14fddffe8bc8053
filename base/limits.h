// Every bound of the system, named once, with its reason. Limits derive from each other by static_assert.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vrampool {

// Apple's hardware page; four Thunderbolt frames. The unit of transfer and of coherence.
inline constexpr std::size_t kPageBytes = 16 * 1024;
// Two to sixteen machines are what we are for; member numbers go higher because they are never reused.
inline constexpr std::size_t kMembersAliveMax = 64;
inline constexpr std::size_t kRosterMax = 256;
// A segment's part on one node is split so that one shared object stays within these bytes.
inline constexpr std::uint64_t kStripeBytesMin = 64ull << 20;
inline constexpr std::uint64_t kPieceBytesMax = 1ull << 40;
// Pieces of one segment.
inline constexpr std::uint32_t kPiecesPerSegmentMax = 4096;
// Segment and tensor names: ASCII, no "..".
inline constexpr std::size_t kNameBytesMax = 255;
inline constexpr std::size_t kTensorsPerSegmentMax = 1 << 20;
inline constexpr std::size_t kTensorDimensionsMax = 8;
// One control message; a record of a model with 100,000 tensors is about 10 MB.
inline constexpr std::size_t kControlMessageBytesMax = 64u << 20;
// One data message carries at most this many pages (1 MiB).
inline constexpr std::uint32_t kPagesPerMessageMax = 64;
// Sessions and views of one daemon.
inline constexpr std::size_t kSessionsMax = 256;
inline constexpr std::size_t kViewsPerSessionMax = 4096;
inline constexpr std::size_t kDescriptorsPerMessageMax = 16;
// The small allocator never hands out more than this share of an arena at once.
inline constexpr std::uint64_t kPoolSlotBytes = 1ull << 48;

// How long things may take (milliseconds). `detection` and `fault` can be configured.
inline constexpr std::int64_t kHeartbeatEveryMs = 250;
inline constexpr std::int64_t kDetectionMs = 3000;
inline constexpr std::int64_t kFaultDeadlineMs = 10000;
inline constexpr std::int64_t kControlCallDeadlineMs = 15000;
inline constexpr std::int64_t kConnectDeadlineMs = 3000;
static_assert(kHeartbeatEveryMs * 8 <= kDetectionMs, "a few lost heartbeats must not kill a node");
static_assert(kDetectionMs < kFaultDeadlineMs, "a fault must outlive the detection of a dead home");
static_assert(kPageBytes % 4096 == 0);

}  // namespace vrampool
