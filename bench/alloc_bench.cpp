#include "bench/alloc_bench.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <ctime>
#include <optional>
#include <thread>

#include "allocator/client_heap.h"
#include "allocator/small_allocator.h"
#include "base/assert.h"

namespace vrampool::bench {
namespace {

using allocator::ClientHeap;
using allocator::SmallAllocator;

// xorshift64* (S. Vigna, 2016): cheap enough not to be measured.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 2 + 1) {}
  std::uint64_t next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545f4914f6cdd1dull;
  }
  std::uint64_t below(std::uint64_t n) { return (next() >> 32) * n >> 32; }
  std::uint64_t between(std::uint64_t low, std::uint64_t high) { return low + below(high - low + 1); }

 private:
  std::uint64_t state_;
};

// Wall and process CPU time of one run.
class Stopwatch {
 public:
  AllocFigure figure(std::string name, std::uint64_t pairs) const {
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - wall_;
    const double cpu_s = static_cast<double>(std::clock() - cpu_) / CLOCKS_PER_SEC;
    const auto n = static_cast<double>(pairs);
    return {std::move(name), n / wall.count(), 0, cpu_s * 1e9 / n};
  }

 private:
  std::chrono::steady_clock::time_point wall_ = std::chrono::steady_clock::now();
  std::clock_t cpu_ = std::clock();
};

// A full-ish arena under churn: allocate one, free a random one.
class Churn {
 public:
  Churn(SmallAllocator arena, Random random, std::uint64_t low, std::uint64_t high)
      : arena_(std::move(arena)), random_(random), low_(low), high_(high) {}

  void fill(double share) {
    const auto limit = static_cast<std::uint64_t>(share * static_cast<double>(arena_.arena_bytes()));
    while (arena_.used_bytes() < limit && add()) continue;
  }
  // Frees a random block, then allocates while below the share: the fill level stays.
  void turn(std::uint64_t pairs, double share) {
    const auto limit = static_cast<std::uint64_t>(share * static_cast<double>(arena_.arena_bytes()));
    for (std::uint64_t i = 0; i < pairs; ++i) {
      remove();
      if (arena_.used_bytes() < limit) VP_ASSERT(add());
    }
  }
  bool add() {
    const auto got = arena_.allocate(random_.between(low_, high_));
    if (got) live_.push_back(*got);
    return got.has_value();
  }
  void remove() {
    if (live_.empty()) return;
    std::swap(live_[random_.below(live_.size())], live_.back());
    arena_.free(live_.back());
    live_.pop_back();
  }

 private:
  SmallAllocator arena_;
  Random random_;
  std::uint64_t low_, high_;
  std::vector<SmallAllocator::Allocation> live_;
};

AllocFigure small_churn(const AllocBenchOptions& o) {
  auto arena = SmallAllocator::create({.arena_bytes = 8ull << 30, .granule_bytes = 64, .blocks_max = 1u << 20});
  Churn churn(std::move(*arena), Random(o.seed), 4096, 256 * 1024);
  churn.fill(0.9);
  churn.turn(o.pairs / 4, 0.9);
  const Stopwatch watch;
  churn.turn(o.pairs, 0.9);
  return watch.figure("small allocator, 4 KiB to 256 KiB, churn at 90 % fill", o.pairs);
}

// Random sizes out of `sizes`, churned at full; what is used when a request of the smallest size fails.
AllocFigure small_utilisation(const AllocBenchOptions& o, std::string name, const std::vector<std::uint64_t>& sizes) {
  auto made = SmallAllocator::create({.arena_bytes = 16ull << 30, .granule_bytes = 64, .blocks_max = 1u << 20});
  SmallAllocator& arena = *made;
  Random random(o.seed);
  std::vector<SmallAllocator::Allocation> live;
  double worst = 1;
  const auto fill = [&] {
    while (true) {
      const auto got = arena.allocate(sizes[random.below(sizes.size())]);
      if (!got) break;
      live.push_back(*got);
    }
    worst = std::min(worst, static_cast<double>(arena.used_bytes()) / static_cast<double>(arena.arena_bytes()));
  };
  const std::uint64_t rounds = std::min<std::uint64_t>(20, o.pairs / 1000 + 1);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    fill();
    for (std::size_t i = live.size() / 3; i-- > 0;) {
      std::swap(live[random.below(live.size())], live.back());
      arena.free(live.back());
      live.pop_back();
    }
  }
  fill();
  return {std::move(name), 0, worst, 0};
}

constexpr std::uint32_t kHeapLow = 4096, kHeapHigh = 512 * 1024;

// A heap that refuses would make a fine rate.
std::uint64_t must(std::optional<std::uint64_t> block) {
  VP_ASSERT(block);
  return *block;
}

// A window of live blocks; each step frees the oldest and allocates one of random size.
AllocFigure heap_alone(const AllocBenchOptions& o) {
  const auto heap = ClientHeap::create({.arena_bytes = 8ull << 30});
  auto cache = (*heap)->acquire_cache();
  Random random(o.seed);
  std::vector<std::uint64_t> window(1024, ~0ull);
  const Stopwatch watch;
  for (std::uint64_t i = 0; i < o.pairs; ++i) {
    auto& slot = window[i % window.size()];
    if (slot != ~0ull) cache->free(slot);
    slot = must(cache->allocate(static_cast<std::uint32_t>(random.between(kHeapLow, kHeapHigh))));
  }
  return watch.figure("client heap, one thread, random sizes", o.pairs);
}

// Blocks on their way from one thread to the other; one producer, one consumer.
class Belt {
 public:
  bool push(std::uint64_t v) {
    const auto at = head_.load(std::memory_order_relaxed);
    if (at - tail_.load(std::memory_order_acquire) == kSlots) return false;
    slots_[at % kSlots] = v;
    head_.store(at + 1, std::memory_order_release);
    return true;
  }
  bool pop(std::uint64_t& v) {
    const auto at = tail_.load(std::memory_order_relaxed);
    if (at == head_.load(std::memory_order_acquire)) return false;
    v = slots_[at % kSlots];
    tail_.store(at + 1, std::memory_order_release);
    return true;
  }

 private:
  static constexpr std::uint64_t kSlots = 1024;
  alignas(64) std::atomic<std::uint64_t> head_{0};
  alignas(64) std::atomic<std::uint64_t> tail_{0};
  std::array<std::uint64_t, kSlots> slots_{};
};

// Every second block goes to the other thread to be freed there.
void exchange(ClientHeap& heap, std::uint64_t seed, std::uint64_t pairs, Belt& out, Belt& in) {
  auto cache = heap.acquire_cache();
  Random random(seed);
  std::vector<std::uint64_t> window(512, ~0ull);
  for (std::uint64_t i = 0; i < pairs; ++i) {
    std::uint64_t theirs = 0;
    while (in.pop(theirs)) cache->free(theirs);
    auto& slot = window[i % window.size()];
    if (slot != ~0ull && (i % 2 == 0 || !out.push(slot))) cache->free(slot);
    slot = must(cache->allocate(static_cast<std::uint32_t>(random.between(kHeapLow, kHeapHigh))));
  }
}

AllocFigure heap_crossing(const AllocBenchOptions& o) {
  const auto heap = ClientHeap::create({.arena_bytes = 16ull << 30});
  Belt there, back;
  const Stopwatch watch;
  std::thread other([&] { exchange(**heap, o.seed + 1, o.pairs, back, there); });
  exchange(**heap, o.seed, o.pairs, there, back);
  other.join();
  auto figure = watch.figure("client heap, two threads, half freed by the other (per thread)", o.pairs);
  figure.cpu_ns_per_pair /= 2;
  return figure;
}

}  // namespace

std::vector<AllocFigure> run_alloc_bench(const AllocBenchOptions& options) {
  return {
      small_churn(options),
      small_utilisation(options, "small allocator, 3,274,752 B only", {3'274'752}),
      small_utilisation(options, "small allocator, 658,432 B only", {658'432}),
      small_utilisation(options, "small allocator, both sizes mixed", {3'274'752, 658'432}),
      heap_alone(options),
      heap_crossing(options),
  };
}

}  // namespace vrampool::bench
