// The small allocator against a model: blocks never overlap, used and free make the arena, full is exact.
#include "allocator/small_allocator.h"

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <map>
#include <random>

using namespace vrampool::allocator;

namespace {

SmallAllocator make(std::uint64_t arena, std::uint32_t granule = 64, std::uint32_t blocks = 1 << 16) {
  return *SmallAllocator::create({arena, granule, blocks});
}
// Adds to the model; false if the block overlaps a live one or leaves the arena.
bool insert(std::map<std::uint64_t, SmallAllocator::Allocation>& live, const SmallAllocator::Allocation& a,
            std::uint64_t arena) {
  const auto after = live.lower_bound(a.offset);
  if (a.offset + a.bytes > arena || (after != live.end() && after->first < a.offset + a.bytes)) return false;
  if (after != live.begin() && std::prev(after)->second.offset + std::prev(after)->second.bytes > a.offset)
    return false;
  live.emplace(a.offset, a);
  return true;
}

}  // namespace

TEST_CASE("a block has at least the size asked for, at a multiple of the granule") {
  auto arena = make(1 << 20, 256);
  const auto a = arena.allocate(1000);
  REQUIRE(a);
  CHECK(a->bytes == 1024);
  CHECK(a->offset % 256 == 0);
  CHECK(arena.used_bytes() == 1024);
  CHECK_FALSE(arena.allocate(0));
  CHECK_FALSE(arena.allocate(2 << 20));
  CHECK_FALSE(arena.allocate(~0ull));
}

TEST_CASE("everything freed is one block again") {
  auto arena = make(1 << 20);
  std::vector<SmallAllocator::Allocation> live;
  while (const auto a = arena.allocate(5000)) live.push_back(*a);
  for (std::size_t i = 0; i < live.size(); i += 2) arena.free(live[i]);
  for (std::size_t i = 1; i < live.size(); i += 2) arena.free(live[i]);
  arena.check();
  CHECK(arena.largest_free_bytes() == 1 << 20);
  CHECK(arena.allocate(1 << 20));
}

TEST_CASE("uniform sizes that are no power of two fill the arena and reuse their holes") {
  for (const std::uint64_t size : {3'274'752ull, 658'432ull}) {
    auto arena = make(4ull << 30);
    std::vector<SmallAllocator::Allocation> live;
    while (const auto a = arena.allocate(size)) live.push_back(*a);
    const auto full = live.size();
    CHECK(full == arena.arena_bytes() / size);
    for (std::size_t i = 0; i < full; i += 3) arena.free(live[i]);
    std::size_t again = 0;
    while (arena.allocate(size)) ++again;
    CHECK(again == (full + 2) / 3);
  }
}

TEST_CASE("no mark left for the rest of a split means no, and nothing is lost") {
  auto arena = make(1 << 20, 64, 3);
  const auto a = arena.allocate(64);
  const auto b = arena.allocate(64);
  REQUIRE(b);
  CHECK_FALSE(arena.allocate(64));
  arena.check();
  arena.free(*a);
  arena.free(*b);
  CHECK(arena.free_bytes() == arena.arena_bytes());
}

TEST_CASE("arenas that cannot be are refused") {
  CHECK_FALSE(SmallAllocator::create({0, 64, 10}).ok());
  CHECK_FALSE(SmallAllocator::create({1 << 20, 48, 10}).ok());
  CHECK_FALSE(SmallAllocator::create({1ull << 48, 64, 10}).ok());
  CHECK_FALSE(SmallAllocator::create({1 << 20, 64, 0}).ok());
}

TEST_CASE("a seeded churn agrees with a model") {
  for (std::uint32_t seed = 1; seed <= 8; ++seed) {
    std::mt19937 random(seed);
    const std::uint64_t bytes = 8 << 20;
    auto arena = make(bytes);
    std::map<std::uint64_t, SmallAllocator::Allocation> live;
    std::uint64_t used = 0;
    for (int i = 0; i < 20'000; ++i) {
      if (random() % 5 < 3) {
        const std::uint64_t ask = 1 + random() % (random() % 8 == 0 ? 400'000 : 20'000);
        const auto largest = arena.largest_free_bytes();
        const auto a = arena.allocate(ask);
        REQUIRE(a.has_value() == (ask <= largest));
        if (a) {
          REQUIRE(insert(live, *a, bytes));
          used += a->bytes;
        }
      } else if (!live.empty()) {
        auto at = live.lower_bound(random() % bytes);
        if (at == live.end()) at = live.begin();
        arena.free(at->second);
        used -= at->second.bytes;
        live.erase(at);
      }
      REQUIRE(arena.used_bytes() == used);
      REQUIRE(arena.free_bytes() + used == bytes);
      if (i % 1000 == 0) arena.check();
    }
    for (const auto& [offset, a] : live) arena.free(a);
    arena.check();
    CHECK(arena.largest_free_bytes() == bytes);
  }
}

TEST_CASE("any order of requests keeps blocks apart and the lists in order") {
  CHECK(rc::check([] {
    const std::uint64_t bytes = 64 * *rc::gen::inRange<std::uint64_t>(1, 5000);
    auto arena = make(bytes, 64, 400);
    std::map<std::uint64_t, SmallAllocator::Allocation> live;
    const auto asks = *rc::gen::container<std::vector<std::uint64_t>>(rc::gen::inRange<std::uint64_t>(0, 30'000));
    for (const auto ask : asks) {
      if (ask % 3 == 0 && !live.empty()) {
        auto at = std::next(live.begin(), static_cast<std::ptrdiff_t>(ask % live.size()));
        arena.free(at->second);
        live.erase(at);
      } else if (const auto a = arena.allocate(ask)) {
        RC_ASSERT(a->bytes >= ask);
        RC_ASSERT(insert(live, *a, bytes));
      }
      arena.check();
    }
  }));
}
