// The outside of FetchMachine and the order of its work.
#include "paging/fetch_machine.h"

#include "paging/fetch_impl.h"

namespace vrampool::paging {

FetchMachine::FetchMachine(FetchOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
FetchMachine::~FetchMachine() = default;

bool FetchMachine::step(const Input& input, Instant now, Outbox& out) {
  impl_->last_step = now;
  impl_->take(input, now);
  impl_->more = impl_->pump(now, out);
  impl_->refresh_counts();
  return impl_->more;
}

bool FetchMachine::lands(RequestNo request, PageIndex first, std::uint32_t count) {
  return impl_->lands(request, first, count);
}
bool FetchMachine::can_take_fault() const { return impl_->waiters.size() < impl_->options.waiters_max; }
bool FetchMachine::can_take_want() const { return impl_->wants.size() < impl_->options.wants_max; }
Instant FetchMachine::next_deadline() const { return impl_->more ? Instant{} : impl_->next_deadline(); }
PageState FetchMachine::inspect(PageIndex p) const { return impl_->pages.state(p); }
RangeCounts FetchMachine::count(PageIndex first, std::uint64_t n) const { return impl_->count(first, n); }
const FetchCounts& FetchMachine::counts() const { return impl_->counts; }
std::uint64_t FetchMachine::pages() const { return impl_->options.pages; }

FetchMachine::Impl::Impl(FetchOptions o)
    : options(std::move(o)),
      pages(options.pages),
      requests(options.requests_max, options.requests_for_faults, options.first_request),
      read_ahead_(options.read_ahead_pages_max) {
  std::uint64_t covered = 0;
  for (const Extent& e : options.extents) {
    VP_ASSERT(e.first.value == covered && e.count > 0);
    covered += e.count;
    source(e.source);
  }
  VP_ASSERT(covered == options.pages && covered > 0);
  waiters.reserve(options.waiters_max);
  wants.reserve(options.wants_max);
}

void FetchMachine::Impl::take(const Input& input, Instant now) {
  std::visit([&](const auto& i) { on(i, now); }, input);
  expire_requests(now);
}

// Dead requests first: what they held is free for everything that follows.
bool FetchMachine::Impl::pump(Instant now, Outbox& out) {
  bool idle = clean_dead(out);
  idle &= serve_doomed(now, out);
  idle &= reveal_done(out);
  idle &= heal(out);
  idle &= serve_readers(now, out);
  idle &= serve_waiters(now, out);
  idle &= serve_wants(now, out);
  idle &= evict(out);
  // Giving up a wait kills its request: its pages must be taken back before the wait can end.
  const auto& all = requests.all();
  idle &= std::none_of(all.begin(), all.end(), [](const Request& r) { return r.phase == Request::Phase::dead; });
  if (!idle) VP_MARK(outbox_resumed);
  return !idle;
}

bool FetchMachine::Impl::emit(Outbox& out, const Order& order) {
  if (out.full()) return false;
  out.push_back(order);
  return true;
}

bool FetchMachine::Impl::lands(RequestNo no, PageIndex first, std::uint32_t n) {
  Request* r = requests.find(no);
  if (VP_BUG(101)) return true;
  if (r == nullptr || !r->covers(first, n)) return false;
  const std::uint64_t bits = r->bits(first, n);
  if ((r->claimed & bits) != 0) {
    VP_MARK(answer_doubled);
    return false;
  }
  r->claimed |= bits;
  return true;
}

// Moments that have passed already wait for an answer, a free slot or a source, not for the clock.
Instant FetchMachine::Impl::next_deadline() const {
  Instant next = kNever;
  const auto consider = [&](Instant t) {
    if (t > last_step) next = std::min(next, t);
  };
  for (const Request& r : requests.all())
    if (r.phase == Request::Phase::current) consider(r.retry_at);
  for (const Waiter& w : waiters) {
    consider(w.deadline);
    consider(w.retry_at);
  }
  for (const WantState& w : wants) {
    consider(w.progress + options.fault_deadline);
    consider(w.retry_at);
  }
  return next;
}

RangeCounts FetchMachine::Impl::count(PageIndex first, std::uint64_t n) const {
  RangeCounts c;
  const std::uint64_t end = clip(first, n);
  for (PageIndex p = pages.skip_untouched(first); p.value < end; p = pages.skip_untouched(PageIndex{p.value + 1})) {
    const PageState s = pages.state(p);
    c.valid += s == PageState::valid;
    c.filling += s == PageState::filling;
    c.poisoned += s == PageState::poisoned;
    c.pinned += pages.pins(p) > 0;
  }
  return c;
}

void FetchMachine::Impl::refresh_counts() {
  counts.valid = pages.count(PageState::valid);
  counts.filling = pages.count(PageState::filling);
  counts.evicting = pages.count(PageState::evicting);
  counts.poisoned = pages.count(PageState::poisoned);
  counts.pinned = pages.pinned();
  counts.requests = requests.used();
  counts.waiters = waiters.size();
  counts.wants = wants.size();
}

const ViewState* FetchMachine::Impl::view(ViewNo no) const {
  const auto at =
      std::lower_bound(views.begin(), views.end(), no, [](const ViewState& v, ViewNo n) { return v.no < n; });
  return at != views.end() && at->no == no ? &*at : nullptr;
}

const Extent& FetchMachine::Impl::extent(std::uint64_t page) const {
  const auto after = std::upper_bound(options.extents.begin(), options.extents.end(), page,
                                      [](std::uint64_t p, const Extent& e) { return p < e.first.value; });
  return *std::prev(after);
}

SourceState& FetchMachine::Impl::source(SourceNo s) {
  if (s.value >= sources_.size()) sources_.resize(s.value + std::size_t{1});
  return sources_[s.value];
}

// True if anybody still waits for the page: then a failed fetch is tried again instead of cleaned away.
bool FetchMachine::Impl::wanted(std::uint64_t page) const {
  const auto waits = [&](const Waiter& w) { return !w.gone && w.page.value == page; };
  const auto wants_it = [&](const WantState& w) { return !w.over && page >= w.scan && page < w.end; };
  return std::any_of(waiters.begin(), waiters.end(), waits) || std::any_of(wants.begin(), wants.end(), wants_it);
}

std::uint64_t FetchMachine::Impl::clip(PageIndex first, std::uint64_t n) const {
  if (first.value >= options.pages) return first.value;
  return first.value + std::min(n, options.pages - first.value);
}

}  // namespace vrampool::paging
