// What each input changes. No orders are written here.
#include "paging/fetch_impl.h"

namespace vrampool::paging {

using Impl = FetchMachine::Impl;

namespace {

bool ends_the_wait(vp_status s) {
  return s == VP_NOT_FOUND || s == VP_STALE || s == VP_DENIED || s == VP_LOST || s == VP_UNSUPPORTED || s == VP_INVALID;
}

}  // namespace

// ---- views and faults ----

void Impl::on(const AddView& in, Instant) {
  if (views.size() >= options.views_max || view(in.view) != nullptr) return;
  const ViewState v{in.view, in.first.value, clip(in.first, in.count), in.on_loss};
  views.insert(
      std::upper_bound(views.begin(), views.end(), v, [](const auto& a, const auto& b) { return a.no < b.no; }), v);
}

void Impl::on(const DropView& in, Instant) {
  std::erase_if(views, [&](const ViewState& v) { return v.no == in.view; });
  std::erase_if(waiters, [&](const Waiter& w) { return w.view == in.view; });
  read_ahead_.forget(in.view);
}

void Impl::on(const Fault& in, Instant now) {
  const ViewState* v = view(in.view);
  if (v == nullptr || in.page.value < v->first || in.page.value >= v->end) return;
  ++counts.faults;
  if (state(in.page.value) != PageState::absent) pages.set_referenced(in.page, true);
  const auto same = [&](const Waiter& w) { return w.view == in.view && w.page == in.page; };
  if (waiters.size() >= options.waiters_max || std::any_of(waiters.begin(), waiters.end(), same)) return;
  if (state(in.page.value) == PageState::filling) VP_MARK(fault_on_filling);
  if (state(in.page.value) == PageState::evicting) VP_MARK(fault_on_evicting);
  read_ahead_.noticed(in.view, in.page.value, v->end);
  const bool poisoned = state(in.page.value) == PageState::poisoned;
  const Instant retry_at = poisoned ? now + options.retry_every : now;
  waiters.push_back({in.view, in.page, now + options.fault_deadline, retry_at, 0, VP_OK, false});
}

// ---- answers ----

void Impl::on(const Arrived& in, Instant now) {
  Request* r = requests.find(in.request);
  if (r == nullptr || !r->covers(in.first, in.count) || (r->settled & r->bits(in.first, in.count)) != 0) {
    VP_MARK(answer_late);
    ++counts.late;
    return;
  }
  if (in.count < r->count) VP_MARK(answer_partial);
  settle(*r, in.first, in.count, in.verdict == Verdict::good || VP_BUG(104), now);
}

void Impl::settle(Request& r, PageIndex first, std::uint32_t n, bool good, Instant now) {
  r.settled |= r.bits(first, n);
  for (std::uint32_t i = 0; i < n; ++i) {
    const PageIndex p{first.value + i};
    VP_ASSERT(pages.state(p) == PageState::filling);
    pages.set_state(p, good ? PageState::valid : PageState::absent);
    pages.set_referenced(p, true);
  }
  counts.fetched += good ? n : 0;
  if (!good) tell_corrupt(first, n, now);
  if (!r.complete()) return;
  r.phase = Request::Phase::done;
  answer_ns_ += ((now - r.sent).ns - answer_ns_) / 8;
  timeouts_ = 0;
}

void Impl::tell_corrupt(PageIndex first, std::uint32_t n, Instant) {
  VP_MARK(answer_corrupt);
  counts.corrupt += n;
  const auto inside = [&](std::uint64_t page) { return page >= first.value && page < first.value + n; };
  for (Waiter& w : waiters)
    if (inside(w.page.value) && ++w.corrupt >= options.corrupt_max) w.verdict = VP_CORRUPT;
  for (WantState& w : wants)
    if (w.scan < first.value + n && w.end > first.value && ++w.corrupt >= options.corrupt_max) w.verdict = VP_CORRUPT;
}

void Impl::on(const Failed& in, Instant now) {
  Request* r = requests.find(in.request);
  if (r == nullptr) {
    VP_MARK(failure_late);
    ++counts.late;
    return;
  }
  r->phase = Request::Phase::dead;
  const bool over = ends_the_wait(in.status);
  if (!over) VP_MARK(failure_retried);
  for (Waiter& w : waiters) {
    if (!r->covers(w.page, 1)) continue;
    w.retry_at = now + options.retry_every;
    if (over) w.verdict = in.status;
  }
  for (WantState& w : wants) {
    if (w.scan >= r->first.value + r->count || w.end <= r->first.value) continue;
    w.retry_at = now + options.retry_every;
    if (over) w.verdict = in.status;
  }
}

// How long an answer may take before it is asked for again. Like TCP's retransmission timer: a slow link must not be
// buried in repeats.
Duration Impl::patience() const {
  const std::int64_t base = std::max(options.retry_every.ns, answer_ns_ * 4);
  const std::int64_t cap = std::max(options.retry_every.ns, options.fault_deadline.ns / 2);
  return {std::min(cap, base << std::min(timeouts_, 6u))};
}

void Impl::expire_requests(Instant now) {
  bool expired = false;
  for (Request& r : requests.all()) {
    if (r.phase != Request::Phase::current || now < r.retry_at) continue;
    VP_MARK(request_expired);
    r.phase = Request::Phase::dead;
    ++counts.retries;
    expired = true;
  }
  timeouts_ += expired;
}

// ---- memory ----

void Impl::on(const Punched& in, Instant) {
  for (std::uint64_t p = in.first.value; p < clip(in.first, in.count); ++p)
    if (state(p) == PageState::evicting || VP_BUG(113)) pages.set_state(PageIndex{p}, PageState::absent);
}

void Impl::on(const Evict& in, Instant) {
  evict_left_ = in.count;
  evict_seen_ = 0;
}

void Impl::on(const Pin& in, Instant) {
  for (std::uint64_t p = in.first.value; p < clip(in.first, in.count); ++p) pages.pin(PageIndex{p});
}

void Impl::on(const Unpin& in, Instant) {
  for (std::uint64_t p = in.first.value; p < clip(in.first, in.count); ++p) pages.unpin(PageIndex{p});
}

void Impl::on(const Adopt& in, Instant) {
  for (std::uint64_t i = 0; i < in.valid.size() * 64; ++i) {
    const std::uint64_t p = in.first.value + i;
    const bool there = (in.valid[i / 64] >> i % 64 & 1) != 0;
    if (there && p < options.pages && state(p) == PageState::absent) pages.set_state(PageIndex{p}, PageState::valid);
  }
}

// ---- wishes ----

void Impl::on(const Want& in, Instant now) {
  if (wants.size() >= options.wants_max) return;
  const std::uint64_t end = clip(in.first, in.count);
  const WantState w{in.token, in.first.value, end, in.first.value, in.first.value, in.priority, now, now};
  // Residents go before prefetches; among equals the older one first.
  const auto after = std::upper_bound(wants.begin(), wants.end(), w,
                                      [](const WantState& a, const WantState& b) { return a.priority > b.priority; });
  wants.insert(after, w);
}

void Impl::on(const CancelWant& in, Instant) {
  for (WantState& w : wants)
    if (w.token == in.token) end_want(w, VP_CANCELLED);
}

// ---- sources ----

void Impl::on(const SourceLost& in, Instant) {
  source(in.source).lost = true;
  for (Request& r : requests.all()) {
    if (r.phase != Request::Phase::current || r.source != in.source) continue;
    VP_MARK(source_lost_in_flight);
    r.phase = Request::Phase::dead;
  }
}

void Impl::on(const SourceBack& in, Instant now) {
  source(in.source).lost = false;
  for (Waiter& w : waiters) w.retry_at = now;
  for (WantState& w : wants) w.retry_at = now;
  if (!VP_BUG(111)) on(Heal{PageIndex{0}, options.pages}, now);
}

void Impl::on(const Heal& in, Instant) {
  const bool busy = heal_at_ < heal_end_;
  heal_at_ = busy ? std::min(heal_at_, in.first.value) : in.first.value;
  heal_end_ = busy ? std::max(heal_end_, clip(in.first, in.count)) : clip(in.first, in.count);
}

void Impl::on(const Relayout& in, Instant) {
  std::uint64_t covered = 0;
  for (const Extent& e : in.extents) {
    if (e.first.value != covered || e.count == 0) return;
    covered += e.count;
  }
  if (covered != options.pages) return;
  options.extents = in.extents;
  for (const Extent& e : in.extents) source(e.source);
}

}  // namespace vrampool::paging
