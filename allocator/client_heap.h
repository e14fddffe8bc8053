// KV-cache blocks inside a mapped segment, handed out by offsets in the client's own process: no message, no lock.
//
// Spans of one size class, owned by a thread's cache; a block that another thread frees goes to its owner's inbox:
// D. Leijen, B. Zorn, L. de Moura, "Mimalloc: Free List Sharding in Action", APLAS 2019, and P. Lietar et al.,
// "snmalloc: A Message Passing Allocator", ISMM 2019; with all links outside of the arena, so that no page is touched.
// The stack of free spans is R. K. Treiber's (IBM RJ 5118, 1986) with a tag against reuse.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"

namespace vrampool::allocator {

// Threads: any number, each through a Cache of its own. Blocking: never. Errors: a full heap says so, and keeps
// working. Units: bytes. Metadata: 0.1 % of the arena.
class ClientHeap {
 public:
  static constexpr std::uint32_t kCachesMax = 256;
  static constexpr std::uint32_t kBlocksPerSpanMax = 1024;
  static constexpr std::uint32_t kExactSizesMax = 16;

  struct Options {
    std::uint64_t arena_bytes = 0;           // a multiple of span_bytes
    std::uint32_t span_bytes = 4u << 20;     // power of two, 64 KiB to 1 GiB; the largest block
    std::vector<std::uint32_t> exact_sizes;  // sizes that will be asked for a lot: no rounding for these
  };
  class Cache;

  // Errors: VP_INVALID for sizes outside of their range.
  static Result<std::unique_ptr<ClientHeap>> create(const Options& options);

  // A cache for the calling thread. Errors: VP_BUSY when kCachesMax threads have one.
  Result<Cache> acquire_cache();

  // What a request of `bytes` takes from the arena; 0 if it is larger than a span. Other sizes than the exact ones are
  // rounded up by at most 1/8 below an eighth of a span, and to span / n above.
  std::uint32_t rounded_bytes(std::uint32_t bytes) const;
  std::uint64_t arena_bytes() const { return static_cast<std::uint64_t>(spans_.size()) << shift_; }

 private:
  static constexpr std::uint32_t kNone = ~0u;
  static constexpr std::uint32_t kClassesMax = 96;

  // One span. Owned by a cache as long as a block of it lives, so a freeing thread may read owner and size class.
  struct alignas(64) Span {
    std::uint32_t owner = kNone;
    std::uint32_t size = 0;
    std::uint32_t blocks = 0;  // how many fit
    std::uint32_t carved = 0;  // blocks [carved, blocks) were never handed out
    std::uint32_t used = 0;
    std::uint32_t free_head = kNone;
    std::uint32_t previous = kNone, next = kNone;  // the owner's spans of this class with room
    std::uint32_t size_class = 0;
    std::atomic<std::uint32_t> stack_next{kNone};
  };
  struct alignas(64) Slot {
    std::atomic<bool> taken{false};
    alignas(64) std::atomic<std::uint32_t> inbox{kNone};
    alignas(64) std::array<std::uint32_t, kClassesMax> with_room{};
  };

  explicit ClientHeap(const Options& options);
  void build_classes(const Options& options);
  std::uint32_t class_of(std::uint32_t bytes) const;

  void push_span(std::uint32_t span);
  std::uint32_t pop_span();
  std::uint32_t find_room(std::uint32_t slot, std::uint32_t size_class);
  std::uint32_t adopt_span(std::uint32_t slot, std::uint32_t size_class);
  void link(Slot& slot, std::uint32_t span);
  void unlink(Slot& slot, std::uint32_t span);
  void free_own(std::uint32_t slot, std::uint32_t block);
  void send(std::uint32_t block);
  void drain(std::uint32_t slot);
  void give_back_empty(std::uint32_t slot);
  void reclaim_idle();

  std::uint32_t shift_ = 0;
  std::uint32_t unit_ = 0;  // span / kBlocksPerSpanMax: the smallest block
  std::vector<std::uint32_t> class_bytes_;
  std::vector<std::uint32_t> class_at_;  // by bytes / unit_, rounded up
  std::vector<Span> spans_;
  std::unique_ptr<std::uint32_t[]> links_;  // per block: the next in its free list or inbox
  std::unique_ptr<Slot[]> slots_;
  alignas(64) std::atomic<std::uint64_t> stack_{kNone};  // {tag 32, span 32}
};

// One thread's share. Given back when destroyed; live blocks stay live and may be freed through any other cache.
// Ownership: must not outlive its heap. Threads: one at a time.
class ClientHeap::Cache {
 public:
  Cache(Cache&& other) noexcept : heap_(other.heap_), slot_(other.slot_) { other.heap_ = nullptr; }
  Cache& operator=(Cache&&) = delete;
  ~Cache();

  // The offset of a block, aligned to 64 bytes; nothing when the heap is full or for sizes of 0 or above a span.
  std::optional<std::uint64_t> allocate(std::uint32_t bytes);
  // REQUIRES: came from allocate() of any cache of this heap and was not freed since.
  void free(std::uint64_t offset);

 private:
  friend class ClientHeap;
  Cache(ClientHeap* heap, std::uint32_t slot) : heap_(heap), slot_(slot) {}

  ClientHeap* heap_;
  std::uint32_t slot_;
};

}  // namespace vrampool::allocator
