// The client heap: blocks never overlap, nothing is lost, also when other threads free.
#include "allocator/client_heap.h"

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <map>
#include <random>
#include <set>
#include <thread>

using namespace vrampool;
using namespace vrampool::allocator;

namespace {

constexpr std::uint32_t kSpan = 1 << 20;
std::unique_ptr<ClientHeap> make(std::uint64_t spans, std::vector<std::uint32_t> exact = {}) {
  return *ClientHeap::create({spans * kSpan, kSpan, std::move(exact)});
}
// After everything was freed, the arena can be had again as whole spans.
bool all_spans_free(ClientHeap& heap) {
  auto cache = heap.acquire_cache();
  std::set<std::uint64_t> spans;
  while (const auto a = cache->allocate(kSpan)) spans.insert(*a);
  for (const auto a : spans) cache->free(a);
  return spans.size() == heap.arena_bytes() / kSpan;
}

}  // namespace

TEST_CASE("sizes are rounded up by little and exact sizes not at all") {
  const auto heap = make(4, {100'032, 7'680});
  CHECK(heap->rounded_bytes(100'032) == 100'032);
  CHECK(heap->rounded_bytes(7'680) == 7'680);
  CHECK(heap->rounded_bytes(kSpan) == kSpan);
  CHECK(heap->rounded_bytes(kSpan + 1) == 0);
  CHECK(heap->rounded_bytes(0) == 0);
  for (std::uint32_t bytes = 1024; bytes <= kSpan / 8; bytes += 77) {
    const auto got = heap->rounded_bytes(bytes);
    CHECK(got >= bytes);
    CHECK(got <= bytes + bytes / 8 + 1024);
  }
}

TEST_CASE("a full heap says so and works on") {
  const auto heap = make(2);
  auto cache = heap->acquire_cache();
  REQUIRE(cache.ok());
  const auto a = cache->allocate(kSpan);
  const auto b = cache->allocate(kSpan);
  REQUIRE(b);
  CHECK_FALSE(cache->allocate(1));
  CHECK_FALSE(cache->allocate(kSpan + 1));
  CHECK_FALSE(cache->allocate(0));
  cache->free(*a);
  CHECK(cache->allocate(1));
}

TEST_CASE("empty spans of one size serve another") {
  const auto heap = make(3);
  auto cache = heap->acquire_cache();
  for (const std::uint32_t bytes : {1024u, 300'000u, 4096u, kSpan, 70'000u}) {
    std::vector<std::uint64_t> live;
    while (const auto a = cache->allocate(bytes)) live.push_back(*a);
    CHECK(live.size() == 3 * (kSpan / heap->rounded_bytes(bytes)));
    for (const auto a : live) cache->free(a);
  }
}

TEST_CASE("a cache whose thread is gone does not keep its memory") {
  const auto heap = make(4);
  std::vector<std::uint64_t> live;
  {
    auto gone = heap->acquire_cache();
    while (const auto a = gone->allocate(50'000)) live.push_back(*a);
  }
  auto first = heap->acquire_cache();   // takes over the old slot
  auto second = heap->acquire_cache();  // frees from outside
  for (const auto a : live) second->free(a);
  { const auto dropped = std::move(*first); }
  CHECK(second->allocate(kSpan));
}

TEST_CASE("heaps that cannot be are refused") {
  CHECK_FALSE(ClientHeap::create({0, kSpan, {}}).ok());
  CHECK_FALSE(ClientHeap::create({kSpan + 1, kSpan, {}}).ok());
  CHECK_FALSE(ClientHeap::create({3 << 20, 3 << 20, {}}).ok());
  CHECK_FALSE(ClientHeap::create({1 << 20, 1 << 10, {}}).ok());
  CHECK_FALSE(ClientHeap::create({kSpan, kSpan, {kSpan + 1}}).ok());
  CHECK_FALSE(ClientHeap::create({kSpan, kSpan, std::vector<std::uint32_t>(17, 4096)}).ok());
}

TEST_CASE("caches run out with a clear error and come back") {
  const auto heap = make(1);
  std::vector<ClientHeap::Cache> caches;
  for (std::uint32_t i = 0; i < ClientHeap::kCachesMax; ++i) caches.push_back(*heap->acquire_cache());
  CHECK(heap->acquire_cache().error().code == VP_BUSY);
  caches.pop_back();
  CHECK(heap->acquire_cache().ok());
}

TEST_CASE("random requests through two caches never overlap and all come back") {
  CHECK(rc::check([] {
    const auto heap = make(8, {33'000});
    auto one = heap->acquire_cache();
    auto two = heap->acquire_cache();
    std::map<std::uint64_t, std::uint32_t> live;
    const auto asks = *rc::gen::container<std::vector<std::uint32_t>>(rc::gen::inRange<std::uint32_t>(1, 200'000));
    for (const auto ask : asks) {
      auto& cache = ask % 2 == 0 ? *one : *two;
      if (ask % 3 == 0 && !live.empty()) {
        const auto at = std::next(live.begin(), static_cast<std::ptrdiff_t>(ask % live.size()));
        cache.free(at->first);
        live.erase(at);
      } else if (const auto a = cache.allocate(ask)) {
        RC_ASSERT(*a + ask <= heap->arena_bytes());
        const auto after = live.lower_bound(*a);
        RC_ASSERT((after == live.end() || *a + ask <= after->first));
        RC_ASSERT((after == live.begin() || std::prev(after)->first + std::prev(after)->second <= *a));
        live.emplace(*a, ask);
      }
    }
    for (const auto& [offset, bytes] : live) one->free(offset);
    { const auto a = std::move(*one); }
    { const auto b = std::move(*two); }
    RC_ASSERT(all_spans_free(*heap));
  }));
}

// Blocks are marked by their holder; a block that two threads hold shows two marks.
TEST_CASE("threads that free each other's blocks never share one") {
  const auto heap = make(64);
  constexpr std::uint32_t kUnit = 1024;
  std::vector<std::atomic<std::uint32_t>> holder(64 * kSpan / kUnit);
  std::array<std::atomic<std::uint64_t>, 256> mailbox;
  for (auto& m : mailbox) m.store(~0ull);
  std::atomic<bool> shared{false};
  const auto run = [&](std::uint32_t me) {
    auto cache = heap->acquire_cache();
    std::mt19937 random(me);
    const auto take = [&](std::uint64_t block, std::uint32_t from, std::uint32_t to) {
      if (holder[block / kUnit].exchange(to) != from) shared.store(true);
    };
    for (int i = 0; i < 50'000; ++i) {
      auto& box = mailbox[random() % mailbox.size()];
      if (const auto block = cache->allocate(1 + random() % 60'000)) {
        take(*block, 0, me);
        const auto other = box.exchange(*block);
        if (other == ~0ull) continue;
        holder[other / kUnit].store(0);
        cache->free(other);
      } else if (const auto other = box.exchange(~0ull); other != ~0ull) {
        holder[other / kUnit].store(0);
        cache->free(other);
      }
    }
  };
  std::vector<std::thread> threads;
  for (std::uint32_t me = 1; me <= 3; ++me) threads.emplace_back(run, me);
  for (auto& t : threads) t.join();
  CHECK_FALSE(shared.load());
  {
    auto cache = heap->acquire_cache();
    for (auto& m : mailbox)
      if (const auto block = m.exchange(~0ull); block != ~0ull) cache->free(block);
  }
  CHECK(all_spans_free(*heap));
}
