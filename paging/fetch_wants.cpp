// Explicit wishes: prefetches and resident fills. A want walks its range once; what it passed is there.
#include "paging/fetch_impl.h"

namespace vrampool::paging {

using Impl = FetchMachine::Impl;

bool Impl::serve_wants(Instant now, Outbox& out) {
  bool idle = true;
  for (WantState& w : wants) idle &= serve_want(w, now, out);
  std::size_t ended = 0;
  while (ended < wants.size() && !out.full()) {
    if (!wants[ended].over) {
      ++ended;
      continue;
    }
    VP_MARK(want_ended);
    emit(out, {OrderKind::want_done, {}, 0, {}, wants[ended].status, {}, {}, wants[ended].token});
    wants.erase(wants.begin() + static_cast<std::ptrdiff_t>(ended));
  }
  const bool left = std::any_of(wants.begin(), wants.end(), [](const WantState& w) { return w.over; });
  return idle && !left;
}

bool Impl::serve_want(WantState& w, Instant now, Outbox& out) {
  if (w.over) return true;
  if (w.verdict != VP_OK) return end_want(w, w.verdict), true;
  bool idle = scan_want(w, now);
  if (!w.over) idle &= issue_want(w, now, out);
  if (!w.over && now >= w.progress + options.fault_deadline) {
    VP_MARK(want_timed_out);
    end_want(w, VP_TIMEOUT);
  }
  return idle;
}

// Moves on over pages that are there, and over lost ones (a prefetch skips them, a resident fill ends).
bool Impl::scan_want(WantState& w, Instant now) {
  const std::uint64_t before = w.scan;
  for (; w.scan < w.end; ++w.scan) {
    if (w.scan - before >= kSweepPagesPerStep) return w.progress = now, false;
    const PageState s = state(w.scan);
    const bool gone = s == PageState::poisoned || (s == PageState::absent && lost(extent(w.scan).source));
    if (gone) {
      VP_MARK(want_lost_pages);
      w.status = VP_LOST;
      if (w.priority == Priority::resident) return end_want(w, VP_LOST), true;
      continue;
    }
    if (s != PageState::valid && !(VP_BUG(112) && s == PageState::filling)) break;
    if (w.priority == Priority::resident) pages.pin(PageIndex{w.scan});
  }
  if (w.scan != before) {
    w.progress = now;
    w.corrupt = 0;
  }
  if (w.scan == w.end) end_want(w, w.status);
  return true;
}

bool Impl::issue_want(WantState& w, Instant now, Outbox& out) {
  // What was asked for and did not come is absent again at the scan point: start over from there.
  if (w.issue > w.scan && state(w.scan) == PageState::absent && now >= w.retry_at) w.issue = w.scan;
  w.issue = std::max(w.issue, w.scan);
  if (now < w.retry_at) return true;
  for (std::uint64_t walked = 0; w.issue < w.end; ++walked) {
    if (walked >= kSweepPagesPerStep) return false;
    if (state(w.issue) != PageState::absent || lost(extent(w.issue).source)) {
      ++w.issue;
      continue;
    }
    if (out.full()) return false;
    const auto most = std::min<std::uint64_t>(kPagesPerMessageMax, w.end - w.issue);
    const std::uint32_t asked = fetch(w.issue, static_cast<std::uint32_t>(most), false, {}, now, out);
    if (asked == 0) {
      if (w.issue == w.scan) w.progress = now;  // others have the slots: no fault of this want's pages
      return true;
    }
    w.issue += asked;
  }
  return true;
}

// A resident fill that ends short gives its pins back; one that is complete leaves them to its owner.
void Impl::end_want(WantState& w, vp_status status) {
  if (w.over) return;
  w.over = true;
  w.status = status;
  if (w.priority != Priority::resident || status == VP_OK) return;
  for (std::uint64_t p = w.first; p < w.scan; ++p) pages.unpin(PageIndex{p});
}

}  // namespace vrampool::paging
