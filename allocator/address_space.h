// Pool addresses: [slot 16][offset 48]. The registry issues a slot once to a coordinator's term, which lays segments
// out inside it, upwards only: no address is ever reused, so a stale address can never name other bytes.
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "base/limits.h"
#include "base/result.h"

namespace vrampool::allocator {

inline constexpr unsigned kSlotShift = 48;
static_assert(kPoolSlotBytes == 1ull << kSlotShift);

constexpr PoolAddress make_address(std::uint16_t slot, std::uint64_t offset) {
  return PoolAddress{(static_cast<std::uint64_t>(slot) << kSlotShift) | offset};
}
constexpr std::uint16_t slot_of(PoolAddress a) { return static_cast<std::uint16_t>(a.value >> kSlotShift); }
constexpr std::uint64_t offset_of(PoolAddress a) { return a.value & (kPoolSlotBytes - 1); }

// One slot. Slot 0 is never issued, so address 0 names nothing.
// Threads: one owner.
class AddressSlot {
 public:
  // `next_offset` continues a slot: the first byte behind everything handed out before.
  explicit AddressSlot(std::uint16_t slot, std::uint64_t next_offset = 0);

  // A range of `bytes`, rounded up to pages; from 2 MiB on aligned to 2 MiB, for huge pages.
  // Errors: VP_INVALID for 0 bytes; VP_NO_SPACE when the slot is used up: ask the registry for the next.
  Result<PoolAddress> allocate(std::uint64_t bytes);

  std::uint16_t slot() const { return slot_; }
  std::uint64_t next_offset() const { return next_; }

 private:
  std::uint16_t slot_;
  std::uint64_t next_;
};

}  // namespace vrampool::allocator
