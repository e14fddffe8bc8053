// Replaces pages of a view by private pages of 0xFF, in one step.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "platform/fault_source.h"

namespace vrampool::platform {

inline constexpr unsigned char kPoisonByte = 0xFF;  // NaN in fp16, bf16, fp32 and fp64

// Threads: any, also in a signal handler. Nobody sees a page half filled: it is filled elsewhere and moved over `at`.
// False when the system has no memory or no room for another mapping.
bool poison_pages(std::byte* at, std::uint64_t bytes, PageAccess access);

// The move alone, by the system: the pages at `from` appear at `to`, and no longer at `from`.
bool move_pages(std::byte* from, std::byte* to, std::uint64_t bytes);

// The ranges of a view that poison_here named. Threads: `add` one at a time, `holds` from any, also in a signal
// handler.
class PoisonedRanges {
 public:
  // False when there are too many; name the whole view instead.
  bool add(std::uint64_t offset, std::uint64_t bytes);
  bool holds(std::uint64_t offset) const;

 private:
  struct Range {
    std::uint64_t from = 0;
    std::uint64_t to = 0;
  };
  std::array<Range, 64> ranges_{};
  std::atomic<std::size_t> count_{0};
};

}  // namespace vrampool::platform
