// Views that wait: revealed, asked for, given up. Every path out of here ends the wait or leaves a deadline behind.
#include "paging/fetch_impl.h"

namespace vrampool::paging {

using Impl = FetchMachine::Impl;

// Those that are given up come before anything asks for their pages again, or the two would chase each other.
bool Impl::serve_doomed(Instant now, Outbox& out) {
  bool idle = true;
  for (Waiter& w : waiters) {
    const ViewState* v = view(w.view);
    const PageState s = state(w.page.value);
    const vp_status why = doom(w, now);
    if (v == nullptr || why == VP_OK || (s != PageState::absent && s != PageState::filling)) continue;
    idle &= give_up(w, *v, why, now, out);
  }
  std::erase_if(waiters, [](const Waiter& w) { return w.gone; });
  return idle;
}

// Why the page will not come (in time); VP_OK: it may.
vp_status Impl::doom(const Waiter& w, Instant now) const {
  if (lost(extent(w.page.value).source)) return VP_LOST;
  if (w.verdict != VP_OK) return w.verdict;
  return now >= w.deadline ? VP_TIMEOUT : VP_OK;
}

bool Impl::serve_waiters(Instant now, Outbox& out) {
  bool idle = true;
  for (Waiter& w : waiters) idle = idle && serve(w, now, out);
  std::erase_if(waiters, [](const Waiter& w) { return w.gone; });
  return idle;
}

// False: the outbox is full.
bool Impl::serve(Waiter& w, Instant now, Outbox& out) {
  const ViewState* v = view(w.view);
  if (v == nullptr) return w.gone = true;
  const std::uint64_t p = w.page.value;
  if (VP_BUG(103) && state(p) == PageState::filling) return reveal_run(w, *v, out);
  if (VP_BUG(110) && state(p) == PageState::evicting) return reveal_run(w, *v, out);
  switch (state(p)) {
    case PageState::valid:
      return reveal_run(w, *v, out);
    case PageState::poisoned:
      return serve_poisoned(w, *v, now, out);
    case PageState::evicting:
      return true;
    case PageState::filling:
    case PageState::absent:
      break;
  }
  if (doom(w, now) != VP_OK) return true;  // dealt with by serve_doomed
  if (state(p) == PageState::filling && !VP_BUG(105)) return true;
  if (now < w.retry_at) return true;
  if (VP_BUG(105) && state(p) == PageState::filling) pages.set_state(w.page, PageState::absent);
  if (out.full()) return false;
  fetch(p, 1, true, {}, now, out);
  if (VP_BUG(109) && w.corrupt > 0) w.gone = true;
  return true;
}

bool Impl::reveal_run(Waiter& w, const ViewState& v, Outbox& out) {
  const std::uint64_t first = w.page.value;
  // A reader's further pages were revealed when they came.
  const std::uint64_t most = first < revealed_to(v.no, first) ? 1 : kRevealRunMax;
  const std::uint64_t end = std::min(v.end, first + most);
  std::uint64_t stop = first + 1;
  while (stop < end && state(stop) == PageState::valid) ++stop;
  if (!emit(out, {OrderKind::reveal, w.page, static_cast<std::uint32_t>(stop - first), {}, VP_OK, {}, v.no}))
    return false;
  return w.gone = true;
}

std::uint64_t Impl::revealed_to(ViewNo no, std::uint64_t page) const {
  for (const Reader& r : read_ahead_.readers())
    if (r.used && r.view == no && page < r.revealed && page + kLookBackPages >= r.last) return r.revealed;
  return 0;
}

bool Impl::serve_poisoned(Waiter& w, const ViewState& v, Instant now, Outbox& out) {
  if (v.on_loss == OnLoss::wait) {
    // This view will not have poison: if the page's host is there, take the poison away and ask again; but not before
    // others had time to read it.
    if (lost(extent(w.page.value).source) || now < w.retry_at) return true;
    VP_MARK(waiting_view_heals);
    w.verdict = VP_OK;
    w.corrupt = 0;
    return !out.full() && punch_run(w.page.value, 1, out);
  }
  if (v.on_loss == OnLoss::abort) {
    if (!emit(out, {OrderKind::fail, w.page, 1, {}, VP_LOST, {}, v.no})) return false;
    return w.gone = true;
  }
  if (out.size() + 2 > Outbox::capacity()) return false;
  emit(out, {OrderKind::lost, w.page, 1, {}, VP_LOST, {}, v.no});
  emit(out, {OrderKind::reveal, w.page, 1, {}, VP_LOST, {}, v.no});
  return w.gone = true;
}

// The page will not come (in time).
bool Impl::give_up(Waiter& w, const ViewState& v, vp_status why, Instant now, Outbox& out) {
  if (v.on_loss == OnLoss::wait) {
    VP_MARK(waiting_view_waits_on);
    w.deadline = now + options.fault_deadline;
    if (w.verdict != VP_OK) w.retry_at = now + options.retry_every;
    w.verdict = VP_OK;
    w.corrupt = 0;
    return true;
  }
  if (v.on_loss == OnLoss::abort) {
    VP_MARK(view_aborted);
    if (!emit(out, {OrderKind::fail, w.page, 1, {}, why, {}, v.no})) return false;
    return w.gone = true;
  }
  if (state(w.page.value) == PageState::filling) {
    // First the request must let go of the page, or its bytes could land over the poison.
    VP_MARK(gave_up_while_filling);
    if (Request* r = requests.owner(w.page)) r->phase = Request::Phase::dead;
    return true;
  }
  if (out.size() + 3 > Outbox::capacity()) return false;
  VP_MARK(page_poisoned);
  ++counts.poisonings;
  pages.set_state(w.page, PageState::poisoned);
  for (Waiter& other : waiters)
    if (other.page == w.page) other.retry_at = now + options.retry_every;
  emit(out, {OrderKind::poison, w.page, 1});
  emit(out, {OrderKind::lost, w.page, 1, {}, why, {}, v.no});
  emit(out, {OrderKind::reveal, w.page, 1, {}, why, {}, v.no});
  return w.gone = true;
}

}  // namespace vrampool::paging
