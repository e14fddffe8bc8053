// Carves an arena into blocks by offsets: small segments inside shared objects.
//
// Two-level segregated fit: M. Masmano, I. Ripoll, A. Crespo, J. Real, "TLSF: a New Dynamic Memory Allocator for
// Real-Time Systems", ECRTS 2004; with the metadata outside of the arena as in S. Aaltonen's OffsetAllocator
// (2023). Ours first looks at a few blocks of the request's own class before it takes the next: uniform sizes that lie
// between two class borders would waste a third of the arena otherwise.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"

namespace vrampool::allocator {

// Threads: one owner. Constant time per call; no memory is taken after create() and none of the arena is touched.
// Units: bytes at the border, granules inside.
class SmallAllocator {
 public:
  struct Options {
    std::uint64_t arena_bytes = 0;
    std::uint32_t granule_bytes = 64;     // power of two; offsets and sizes are multiples
    std::uint32_t blocks_max = 1u << 20;  // used and free blocks together
  };
  // Half-open [offset, offset + bytes). `block` is the allocator's own mark and must come back with free().
  struct Allocation {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::uint32_t block = 0;
  };

  // Errors: VP_INVALID for an arena that is empty or has 2^32 granules or more.
  static Result<SmallAllocator> create(const Options& options);

  // Nothing when no free block is large enough (or blocks_max is reached), or for 0 bytes.
  std::optional<Allocation> allocate(std::uint64_t bytes);
  // REQUIRES: came from allocate() of this object and was not freed since; anything else asserts.
  void free(const Allocation& allocation);

  std::uint64_t arena_bytes() const { return static_cast<std::uint64_t>(arena_) * granule_; }
  std::uint64_t used_bytes() const { return static_cast<std::uint64_t>(used_) * granule_; }
  std::uint64_t free_bytes() const { return arena_bytes() - used_bytes(); }
  // A block of this size can be had now. Exact.
  std::uint64_t largest_free_bytes() const;
  // Tests: walks all blocks; asserts that they tile the arena, that no two free ones touch and that all lists agree.
  void check() const;

 private:
  static constexpr std::uint32_t kNone = ~0u;
  static constexpr unsigned kSecondBits = 5;  // 32 classes per doubling: about 3 % apart
  static constexpr unsigned kSecond = 1u << kSecondBits;
  static constexpr unsigned kFirst = 32 - kSecondBits + 1;
  static constexpr int kOwnClassLooks = 16;

  struct Block {
    std::uint32_t start = 0;
    std::uint32_t size = 0;                        // granules
    std::uint32_t before = kNone, after = kNone;   // neighbours in the arena
    std::uint32_t previous = kNone, next = kNone;  // neighbours in the free list
    bool used = false;
  };
  struct Class {
    unsigned first = 0, second = 0;
  };

  SmallAllocator() = default;
  static Class class_of(std::uint32_t size);
  std::uint32_t find(std::uint32_t size) const;
  std::uint32_t find_in_own_class(Class own, std::uint32_t size) const;
  std::uint32_t find_above(Class own) const;
  void link(std::uint32_t block);
  void unlink(std::uint32_t block);
  bool split(std::uint32_t block, std::uint32_t size);
  void merge_into(std::uint32_t keep, std::uint32_t gone);

  std::uint32_t granule_ = 0, arena_ = 0, used_ = 0, blocks_max_ = 0;
  std::vector<Block> blocks_;
  std::vector<std::uint32_t> spare_;  // indices of blocks_ that stand for nothing now
  std::uint32_t first_map_ = 0;
  std::array<std::uint32_t, kFirst> second_map_{};
  std::array<std::array<std::uint32_t, kSecond>, kFirst> heads_{};
};

}  // namespace vrampool::allocator
