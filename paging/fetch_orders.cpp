// Orders that follow from requests: asking, taking back the pages of dead ones, revealing what a reader waits for.
#include "paging/fetch_impl.h"

namespace vrampool::paging {

using Impl = FetchMachine::Impl;

std::uint32_t Impl::fetch(std::uint64_t first, std::uint32_t most, bool for_fault, ViewNo reader, Instant now,
                          Outbox& out) {
  if (out.full()) return 0;
  const Extent& from = extent(first);
  const std::uint64_t end = std::min(first + std::min(most, kPagesPerMessageMax), from.first.value + from.count);
  Request* r = requests.take(for_fault);
  if (r == nullptr) return 0;
  r->first = PageIndex{first};
  for (std::uint64_t p = first; p < end && state(p) == PageState::absent; ++p) {
    pages.set_state(PageIndex{p}, PageState::filling);
    ++r->count;
  }
  VP_ASSERT(r->count > 0);
  r->source = from.source;
  r->reader = reader;
  r->sent = now;
  r->retry_at = now + patience();
  return emit(out, {OrderKind::fetch, r->first, r->count, r->source, VP_OK, r->no}) ? r->count : 0;
}

bool Impl::clean_dead(Outbox& out) {
  for (Request& r : requests.all()) {
    if (r.phase != Request::Phase::dead) continue;
    if (!r.told && !VP_BUG(107)) {
      if (!emit(out, {OrderKind::abandon, r.first, r.count, r.source, VP_OK, r.no})) return false;
      r.told = true;
    }
    while (r.cleaned < r.count)
      if (!clean_page_run(r, out)) return false;
    requests.give_back(r);
  }
  return true;
}

// A page of a dead request is asked for again if somebody waits; else half-landed bytes are given back.
bool Impl::clean_page_run(Request& r, Outbox& out) {
  const std::uint64_t first = r.first.value + r.cleaned;
  const auto ours = [&](std::uint64_t p) {
    return p < r.first.value + r.count && (r.settled & r.bits(PageIndex{p}, 1)) == 0 && !wanted(p);
  };
  std::uint64_t end = first;
  while (ours(end)) ++end;
  if (end > first) {
    VP_MARK(abandoned_pages_punched);
    if (out.full()) return false;
    punch_run(first, end - first, out);
    r.cleaned += static_cast<std::uint32_t>(end - first);
    return true;
  }
  if ((r.settled & r.bits(PageIndex{first}, 1)) == 0) pages.set_state(PageIndex{first}, PageState::absent);
  ++r.cleaned;
  return true;
}

// A reader's pages are revealed when they come; the first is held back so that its fault tells how far it got.
bool Impl::reveal_done(Outbox& out) {
  for (Request& r : requests.all()) {
    if (r.phase != Request::Phase::done) continue;
    const ViewState* v = r.count > 1 ? view(r.reader) : nullptr;
    const std::uint64_t first = r.first.value + 1, end = v == nullptr ? 0 : std::min(r.first.value + r.count, v->end);
    const auto valid = [&](std::uint64_t p) { return state(p) == PageState::valid; };
    std::uint64_t stop = first;
    while (stop < end && valid(stop)) ++stop;
    if (stop > first) {
      VP_MARK(reader_revealed);
      if (!emit(out,
                {OrderKind::reveal, PageIndex{first}, static_cast<std::uint32_t>(stop - first), {}, VP_OK, {}, v->no}))
        return false;
      for (Reader& reader : read_ahead_.readers())
        if (reader.view == r.reader && stop <= reader.ahead) reader.revealed = std::max(reader.revealed, stop);
    }
    requests.give_back(r);
  }
  return true;
}

bool Impl::serve_readers(Instant now, Outbox& out) {
  for (Reader& r : read_ahead_.readers())
    if (r.used && !serve_reader(r, now, out)) return false;
  return true;
}

bool Impl::serve_reader(Reader& r, Instant now, Outbox& out) {
  r.ahead = std::max(r.ahead, r.last);
  for (std::uint64_t walked = 0; r.ahead < r.target; ++walked) {
    if (walked >= kSweepPagesPerStep) return false;
    const bool wants_page = state(r.ahead) == PageState::absent && !lost(extent(r.ahead).source);
    if (!wants_page) {
      ++r.ahead;
      continue;
    }
    if (out.full()) return false;
    const auto most = std::min<std::uint64_t>(r.request_pages(), r.target - r.ahead);
    const std::uint32_t asked = fetch(r.ahead, static_cast<std::uint32_t>(most), false, r.view, now, out);
    if (asked == 0) return true;  // no slot now; an answer will free one
    VP_MARK(read_ahead_asked);
    r.ahead += asked;
  }
  return true;
}

}  // namespace vrampool::paging
