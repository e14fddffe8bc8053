// One byte of state per page, in chunks that exist only where something happened: a sparse segment of 25 million
// pages costs a pointer per 64 MiB until it is touched.
//
// Threads: one. Units: pages.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/ids.h"

namespace vrampool::paging {

enum class PageState : std::uint8_t { absent = 0, filling = 1, valid = 2, evicting = 3, poisoned = 4 };

inline constexpr std::uint64_t kChunkPages = 4096;

class PageTable {
 public:
  explicit PageTable(std::uint64_t pages);

  std::uint64_t pages() const { return pages_; }
  PageState state(PageIndex p) const;
  void set_state(PageIndex p, PageState s);  // keeps counts
  std::uint64_t count(PageState s) const { return counts_[static_cast<std::size_t>(s)]; }

  // Set when a page is asked for; the eviction clock takes it away first.
  bool referenced(PageIndex p) const;
  void set_referenced(PageIndex p, bool on);

  std::uint16_t pins(PageIndex p) const;
  void pin(PageIndex p);  // saturates; a saturated pin stays
  void unpin(PageIndex p);
  std::uint64_t pinned() const { return pinned_; }

  // The first page at or after `p` whose chunk exists, or pages().
  PageIndex skip_untouched(PageIndex p) const;
  // True if the chunk of `p` has a page in that state.
  bool chunk_has(PageIndex p, PageState s) const;

 private:
  struct Chunk {
    std::array<std::uint8_t, kChunkPages> byte{};  // low 3 bits state, bit 3 referenced
    std::array<std::uint16_t, 5> counts{};         // per state; absent is not counted
    std::unique_ptr<std::array<std::uint16_t, kChunkPages>> pins;
  };
  const Chunk* find(PageIndex p) const { return chunks_[p.value / kChunkPages].get(); }
  Chunk& touch(PageIndex p);

  std::uint64_t pages_;
  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::array<std::uint64_t, 5> counts_{};
  std::uint64_t pinned_ = 0;
};

}  // namespace vrampool::paging
