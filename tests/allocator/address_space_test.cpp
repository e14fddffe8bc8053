// Pool addresses: slots, alignment, and that nothing is ever handed out twice.
#include "allocator/address_space.h"

#include <doctest/doctest.h>

using namespace vrampool;
using namespace vrampool::allocator;

TEST_CASE("an address holds its slot and its offset") {
  const auto a = make_address(0xabcd, 0x123456789abcull);
  CHECK(slot_of(a) == 0xabcd);
  CHECK(offset_of(a) == 0x123456789abcull);
}

TEST_CASE("ranges rise, never overlap, start on pages and large ones on 2 MiB") {
  AddressSlot slot(7);
  std::uint64_t end = 0;
  for (const std::uint64_t bytes : {1ull, 16384ull, 5ull << 20, 16385ull, 64ull << 30, 3ull}) {
    const auto a = slot.allocate(bytes);
    REQUIRE(a.ok());
    CHECK(slot_of(*a) == 7);
    CHECK(offset_of(*a) >= end);
    CHECK(offset_of(*a) % kPageBytes == 0);
    if (bytes >= 2ull << 20) CHECK(offset_of(*a) % (2ull << 20) == 0);
    end = offset_of(*a) + bytes;
    CHECK(slot.next_offset() >= end);
  }
}

TEST_CASE("a slot continues where it was") {
  AddressSlot first(3);
  REQUIRE(first.allocate(100).ok());
  AddressSlot second(3, first.next_offset());
  CHECK(offset_of(*second.allocate(100)) == kPageBytes);
}

TEST_CASE("a full slot says so and can still take what fits") {
  AddressSlot slot(1, kPoolSlotBytes - 2 * kPageBytes);
  const auto big = slot.allocate(3 * kPageBytes);
  REQUIRE_FALSE(big.ok());
  CHECK(big.error().code == VP_NO_SPACE);
  CHECK(big.error().message.find("next slot") != std::string::npos);
  CHECK(slot.allocate(2 * kPageBytes).ok());
  CHECK_FALSE(slot.allocate(1).ok());
  CHECK_FALSE(slot.allocate(~0ull).ok());
  CHECK_FALSE(slot.allocate(0).ok());
}
