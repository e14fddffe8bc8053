#include "paging/page_table.h"

#include <limits>

#include "base/assert.h"

namespace vrampool::paging {
namespace {

constexpr std::uint8_t kStateMask = 7;
constexpr std::uint8_t kReferenced = 8;
constexpr std::uint16_t kPinsMax = std::numeric_limits<std::uint16_t>::max();

std::size_t at(PageIndex p) { return p.value % kChunkPages; }
std::size_t index(PageState s) { return static_cast<std::size_t>(s); }

}  // namespace

PageTable::PageTable(std::uint64_t pages) : pages_(pages), chunks_((pages + kChunkPages - 1) / kChunkPages) {
  counts_[index(PageState::absent)] = pages;
}

PageTable::Chunk& PageTable::touch(PageIndex p) {
  VP_ASSERT(p.value < pages_);
  auto& chunk = chunks_[p.value / kChunkPages];
  if (!chunk) chunk = std::make_unique<Chunk>();
  return *chunk;
}

PageState PageTable::state(PageIndex p) const {
  VP_ASSERT(p.value < pages_);
  const Chunk* chunk = find(p);
  return chunk == nullptr ? PageState::absent : static_cast<PageState>(chunk->byte[at(p)] & kStateMask);
}

void PageTable::set_state(PageIndex p, PageState s) {
  Chunk& chunk = touch(p);
  auto& byte = chunk.byte[at(p)];
  const auto before = static_cast<PageState>(byte & kStateMask);
  byte = static_cast<std::uint8_t>((byte & ~kStateMask) | index(s));
  if (before != PageState::absent) --chunk.counts[index(before)];
  if (s != PageState::absent) ++chunk.counts[index(s)];
  --counts_[index(before)];
  ++counts_[index(s)];
}

bool PageTable::referenced(PageIndex p) const {
  const Chunk* chunk = find(p);
  return chunk != nullptr && (chunk->byte[at(p)] & kReferenced) != 0;
}

void PageTable::set_referenced(PageIndex p, bool on) {
  auto& byte = touch(p).byte[at(p)];
  byte = static_cast<std::uint8_t>(on ? byte | kReferenced : byte & ~kReferenced);
}

std::uint16_t PageTable::pins(PageIndex p) const {
  const Chunk* chunk = find(p);
  return chunk == nullptr || !chunk->pins ? std::uint16_t{0} : (*chunk->pins)[at(p)];
}

void PageTable::pin(PageIndex p) {
  Chunk& chunk = touch(p);
  if (!chunk.pins) chunk.pins = std::make_unique<std::array<std::uint16_t, kChunkPages>>();
  auto& n = (*chunk.pins)[at(p)];
  if (n == 0) ++pinned_;
  if (n < kPinsMax) ++n;
}

void PageTable::unpin(PageIndex p) {
  if (pins(p) == 0 || pins(p) == kPinsMax) return;
  auto& n = (*touch(p).pins)[at(p)];
  if (--n == 0) --pinned_;
}

PageIndex PageTable::skip_untouched(PageIndex p) const {
  while (p.value < pages_ && find(p) == nullptr) p.value = (p.value / kChunkPages + 1) * kChunkPages;
  return p.value < pages_ ? p : PageIndex{pages_};
}

bool PageTable::chunk_has(PageIndex p, PageState s) const {
  const Chunk* chunk = find(p);
  return chunk != nullptr && chunk->counts[index(s)] > 0;
}

}  // namespace vrampool::paging
