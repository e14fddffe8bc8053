#include "allocator/address_space.h"

namespace vrampool::allocator {
namespace {

constexpr std::uint64_t kHugeBytes = 2ull << 20;
constexpr std::uint64_t round_up(std::uint64_t n, std::uint64_t to) { return (n + to - 1) / to * to; }

}  // namespace

AddressSlot::AddressSlot(std::uint16_t slot, std::uint64_t next_offset) : slot_(slot), next_(next_offset) {
  VP_ASSERT(slot != 0 && next_offset <= kPoolSlotBytes);
}

Result<PoolAddress> AddressSlot::allocate(std::uint64_t bytes) {
  if (bytes == 0) return error(VP_INVALID, "a segment of 0 bytes has no address");
  const std::uint64_t start = round_up(next_, bytes >= kHugeBytes ? kHugeBytes : kPageBytes);
  if (start >= kPoolSlotBytes || bytes > kPoolSlotBytes - start)
    return error(VP_NO_SPACE,
                 "pool address slot {} has {} bytes left, {} are needed; the coordinator must take the next slot",
                 slot_, kPoolSlotBytes - next_, bytes);
  next_ = round_up(start + bytes, kPageBytes);
  return make_address(slot_, start);
}

}  // namespace vrampool::allocator
