// Walks over the page table: eviction with a second chance, and the healing of poison. Both stop after a bounded
// number of pages and go on at the next step.
#include "paging/fetch_impl.h"

namespace vrampool::paging {

using Impl = FetchMachine::Impl;

// The state changes here, before the order leaves: nobody can reveal a page that is about to go.
bool Impl::punch_run(std::uint64_t first, std::uint64_t n, Outbox& out) {
  for (std::uint64_t p = first; p < first + n; ++p) pages.set_state(PageIndex{p}, PageState::evicting);
  return emit(out, {OrderKind::punch, PageIndex{first}, static_cast<std::uint32_t>(n)});
}

// Asks the page's second chance away on the first pass.
bool Impl::evictable(std::uint64_t p) {
  const PageIndex page{p};
  const PageState s = pages.state(page);
  if (VP_BUG(102) && s == PageState::filling) return true;
  const bool lost_poison = s == PageState::poisoned && lost(extent(p).source);
  if (s != PageState::valid && !lost_poison) return false;
  if (pages.pins(page) > 0 && !VP_BUG(106)) {
    VP_MARK(evict_met_pin);
    return false;
  }
  if (!pages.referenced(page)) return true;
  VP_MARK(evict_second_chance);
  pages.set_referenced(page, false);
  return false;
}

bool Impl::evict(Outbox& out) {
  std::uint64_t looked = 0;
  while (evict_left_ > 0) {
    if (out.full()) return false;
    if (evict_hand_ >= options.pages) evict_hand_ = 0;
    const PageIndex next = pages.skip_untouched(PageIndex{evict_hand_});
    evict_seen_ += next.value - evict_hand_;
    evict_hand_ = next.value;
    // Two rounds find everything that can go: one takes the second chances away, one takes the pages.
    if (evict_seen_ > 2 * options.pages) return evict_left_ = 0, true;
    if (evict_hand_ == options.pages) continue;
    if (looked >= kSweepPagesPerStep) return false;
    std::uint64_t run = 0;
    while (run < evict_left_ && run < kPunchRunMax && evict_hand_ + run < options.pages && evictable(evict_hand_ + run))
      ++run;
    if (run > 0) {
      VP_MARK(evicted);
      punch_run(evict_hand_, run, out);
      evict_left_ -= run;
      counts.evicted += run;
    }
    const std::uint64_t step = std::max<std::uint64_t>(run, 1);
    evict_hand_ += step;
    evict_seen_ += step;
    looked += step;
  }
  return true;
}

bool Impl::heal(Outbox& out) {
  std::uint64_t looked = 0;
  while (heal_at_ < heal_end_) {
    if (out.full() || looked >= kSweepPagesPerStep) return false;
    ++looked;
    const PageIndex p{heal_at_};
    if (!pages.chunk_has(p, PageState::poisoned)) {
      heal_at_ = (heal_at_ / kChunkPages + 1) * kChunkPages;
      continue;
    }
    ++heal_at_;
    if (pages.state(p) != PageState::poisoned || lost(extent(p.value).source)) continue;
    VP_MARK(page_healed);
    if (VP_BUG(108))
      pages.set_state(p, PageState::absent);
    else
      punch_run(p.value, 1, out);
  }
  return true;
}

}  // namespace vrampool::paging
