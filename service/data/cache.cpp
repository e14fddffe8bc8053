#include "service/data/cache.h"

#include <algorithm>

#include "base/log.h"
#include "platform/clock.h"
#include "service/data/checks.h"
#include "service/data/engine.h"
#include "service/data/landing.h"

namespace vrampool::service::data {
namespace {

constexpr std::size_t kMeasuredMax = 256;

std::vector<paging::Extent> extents_of(const Placement& placement) {
  std::vector<paging::Extent> out;
  for (const auto& run : placement.runs())
    out.push_back({PageIndex{run.offset / kPageBytes}, (run.bytes + kPageBytes - 1) / kPageBytes,
                   paging::SourceNo{run.home.value}});
  return out;
}

paging::FetchOptions machine_options(const DataPlaneOptions& o, const Placement& placement, RequestNo first) {
  paging::FetchOptions f;
  f.extents = extents_of(placement);
  f.pages = (placement.bytes() + kPageBytes - 1) / kPageBytes;
  f.first_request = first;
  f.fault_deadline = o.fault_deadline;
  f.retry_every = o.retry_every;
  f.waiters_max = 1024;
  return f;
}

}  // namespace

Cache::Cache(Engine& engine, CachePtr object, Record record, const Placement& placement, RequestNo first_request)
    : engine_(engine),
      object_(std::move(object)),
      record_(std::move(record)),
      machine_(machine_options(engine.node().options, placement, first_request)) {}

Cache::~Cache() {
  for (auto& [token, done] : std::exchange(wants_, {})) done(VP_STALE);
  for (const auto& o : outstanding_) {
    if (o.flight) o.flight->drop();
    engine_.forget(o.home, o.request, o.flight, o.mover);
  }
  engine_.node().counters.cache_bytes.fetch_sub(valid_counted_ * kPageBytes, std::memory_order_relaxed);
}

// ---- the machine ----

void Cache::feed(const paging::Input& input) {
  inputs_.push_back(input);
  if (!pumping_) pump();
}

void Cache::pump() {
  pumping_ = true;
  while (!inputs_.empty()) {
    inputs_now_.swap(inputs_);
    for (const auto& input : inputs_now_) {
      out_.clear();
      bool more = machine_.step(input, platform::now(), out_);
      for (const auto& order : out_) carry(order);
      while (more && !out_.empty()) {
        out_.clear();
        more = machine_.step(paging::Resume{}, platform::now(), out_);
        for (const auto& order : out_) carry(order);
      }
    }
    inputs_now_.clear();
  }
  pumping_ = false;
  const auto& c = machine_.counts();
  engine_.node().counters.cache_bytes.fetch_add((c.valid - valid_counted_) * kPageBytes, std::memory_order_relaxed);
  valid_counted_ = c.valid;
  engine_.cache_moved(machine_.next_deadline());
}

void Cache::carry(const paging::Order& o) {
  using paging::OrderKind;
  switch (o.kind) {
    case OrderKind::fetch:
      return fetch(o);
    case OrderKind::abandon:
      return abandon(o.request);
    case OrderKind::reveal:
      return reveal(o);
    case OrderKind::punch:
      return punch(o);
    case OrderKind::poison:
      return poison(o);
    case OrderKind::fail:
      return tell_loss(o, true);
    case OrderKind::lost:
      return tell_loss(o, false);
    case OrderKind::want_done: {
      const auto it = wants_.find(o.token.value);
      if (it == wants_.end()) return;
      const WantDone done = std::move(it->second);
      wants_.erase(it);
      return done(o.status);
    }
  }
}

void Cache::adopt_valid() {
  constexpr std::uint64_t kWordsPerStep = 64;
  const std::uint64_t pages = object_->pages();
  std::array<std::uint64_t, kWordsPerStep> words;
  for (std::uint64_t first = 0; first < pages; first += kWordsPerStep * 64) {
    words.fill(0);
    bool any = false;
    for (std::uint64_t p = first; p < std::min(pages, first + kWordsPerStep * 64);) {
      const std::uint64_t next = object_->meta().run_end(p, std::min(pages, first + kWordsPerStep * 64));
      for (std::uint64_t q = p; q < next && object_->meta().valid(p); ++q)
        words[(q - first) / 64] |= 1ull << (q - first) % 64, any = true;
      p = next;
    }
    if (any) feed(paging::Adopt{PageIndex{first}, words});
  }
}

void Cache::relayout(const Placement& placement) { feed(paging::Relayout{extents_of(placement)}); }

Status Cache::want(PageIndex first, std::uint64_t count, paging::Priority priority, WantDone done) {
  if (!machine_.can_take_want())
    return error(VP_BUSY, "too many prefetches and resident maps of segment {} at once", to_text(id()));
  const std::uint64_t token = ++next_want_;
  wants_[token] = std::move(done);
  feed(paging::Want{paging::WantToken{token}, first, count, priority});
  return {};
}

// ---- views ----

void Cache::add_range(paging::ViewNo no, PageIndex first, std::uint64_t count, paging::OnLoss on_loss, View& view) {
  ranges_.push_back({no, first, count, &view});
  feed(paging::AddView{no, first, count, on_loss});
}

void Cache::drop_range(paging::ViewNo no) {
  std::erase_if(ranges_, [&](const Range& r) { return r.no == no; });
  feed(paging::DropView{no});
}

Cache::Range* Cache::range(paging::ViewNo no) {
  const auto it = std::find_if(ranges_.begin(), ranges_.end(), [&](const Range& r) { return r.no == no; });
  return it == ranges_.end() ? nullptr : &*it;
}

void Cache::fault(paging::ViewNo view, PageIndex page) {
  if (measured_.size() < kMeasuredMax) measured_.push_back({view, page, platform::monotonic_ns()});
  feed(paging::Fault{view, page});
}

void Cache::reveal(const paging::Order& o) {
  if (Range* r = range(o.view)) r->view->reveal(o.first, o.count);
  if (measured_.empty()) return;
  const std::int64_t now = platform::monotonic_ns();
  std::erase_if(measured_, [&](const Measured& m) {
    if (m.view != o.view || m.page < o.first || m.page.value >= o.first.value + o.count) return false;
    engine_.node().counters.fault_ns.add(static_cast<std::uint64_t>(now - m.since_ns));
    return true;
  });
}

void Cache::tell_loss(const paging::Order& o, bool abort) {
  if (Range* r = range(o.view)) r->view->tell_loss(o.first, std::max(o.count, 1u), o.status, abort);
  std::erase_if(measured_, [&](const Measured& m) { return m.view == o.view && m.page == o.first; });
}

void Cache::tell_healed() {
  for (const Range& r : ranges_) r.view->tell_healed();
}

void Cache::feed_deferred() {
  for (std::size_t i = 0; i < ranges_.size() && can_take_fault(); ++i) ranges_[i].view->feed_deferred();
}

// ---- taking pages back ----

void Cache::punch(const paging::Order& o) {
  for (std::uint64_t p = o.first.value; p < o.first.value + o.count; ++p) object_->meta().clear_valid(p);
  engine_.node().counters.evicted_pages.fetch_add(o.count, std::memory_order_relaxed);
  punches_.push_back({o.first, o.count, {}});
  Punch& punch = punches_.back();
  for (const Range& r : ranges_) {
    const bool listed = std::find(punch.waits_for.begin(), punch.waits_for.end(), r.view) != punch.waits_for.end();
    if (listed || !r.view->overlaps(o.first, o.count)) continue;
    const auto state = r.view->revoke(o.first, o.count);
    if (state == platform::RevokeState::pending) punch.waits_for.push_back(r.view);
    if (state == platform::RevokeState::full) punch.waits_for.push_back(r.view), punch.revoke_again = true;
    if (state == platform::RevokeState::gone) engine_.doom(r.view->id());
  }
  if (punch.waits_for.empty()) finish_punch(punches_.size() - 1);
}

void Cache::finish_punch(std::size_t index) {
  const Punch done = std::move(punches_[index]);
  punches_.erase(punches_.begin() + static_cast<std::ptrdiff_t>(index));
  if (platform::SharedObject::release_granule_bytes() != 0)
    if (auto s = object_->data().release(done.first.value * kPageBytes, done.count * kPageBytes); !s)
      log::warn("{}", s.error().message);
  for (const Range& r : ranges_) r.view->wake(done.first, done.count);
  feed(paging::Punched{done.first, done.count});
}

void Cache::revoked(View& view, PageIndex first, std::uint64_t count) {
  for (std::size_t i = 0; i < punches_.size();) {
    Punch& p = punches_[i];
    const bool inside = p.first >= first && p.first.value + p.count <= first.value + count;
    const bool was_waiting = inside && std::erase(p.waits_for, &view) != 0;
    if (was_waiting && p.waits_for.empty())
      finish_punch(i);
    else
      ++i;
  }
}

void Cache::revoke_again() {
  for (auto& p : punches_) {
    if (!std::exchange(p.revoke_again, false)) continue;
    for (View* v : p.waits_for) {
      const auto state = v->revoke(p.first, p.count);
      if (state == platform::RevokeState::full) p.revoke_again = true;
      if (state == platform::RevokeState::gone) engine_.doom(v->id());
    }
  }
}

void Cache::poison(const paging::Order& o) {
  engine_.node().counters.poisoned_pages.fetch_add(o.count, std::memory_order_relaxed);
  for (std::uint64_t p = o.first.value; p < o.first.value + o.count; ++p)
    if (auto s = land(object_->data(), p * kPageBytes, poison_page()); !s) log::error("poison: {}", s.error().message);
}

bool Cache::copy_out(std::uint64_t offset, std::span<std::byte> into) const {
  const std::uint64_t end = (offset + into.size() + kPageBytes - 1) / kPageBytes;
  for (std::uint64_t p = offset / kPageBytes; p < end; ++p)
    if (machine_.inspect(PageIndex{p}) != paging::PageState::valid) return false;
  std::copy_n(object_->view(offset, into.size()).data(), into.size(), into.data());
  return true;
}

// ---- fetching ----

void Cache::fetch(const paging::Order& o) {
  const MemberNo home{o.source.value};
  if (home.value == 0) return feed(paging::Failed{o.request, VP_LOST});
  if (o.count <= kEngineFetchPages && fetch_here(o, home)) return;
  fetch_by_mover(o, home);
}

Status Cache::fetch_here(const paging::Order& o, MemberNo home) {
  if (home == engine_.node().self().member) {
    if (!machine_.lands(o.request, o.first, o.count)) return {};
    const Status s = copy_from_piece(engine_.loop(), *object_, o.first, o.count);
    if (s)
      arrived(o.request, o.first, o.count, 0);
    else
      feed(paging::Failed{o.request, s.error().code});
    return {};
  }
  PeerLink* peer = engine_.loop().peer(home);
  if (peer == nullptr) return error(VP_UNREACHABLE, "member {} is not in the view", home.value);
  Ask ask;
  ask.header.kind = wire::DataKind::read;
  ask.header.request = o.request;
  ask.header.segment = id();
  ask.header.layout_version = record_->layout_version;
  ask.header.offset = o.first.value * kPageBytes;
  ask.header.length = static_cast<std::uint32_t>(o.count * kPageBytes);
  ask.asker = this;
  ask.cookie = o.request.value;
  VP_CHECK(peer->ask(ask));
  outstanding_.push_back({o.request, o.first, o.count, home, nullptr, 0});
  return {};
}

void Cache::fetch_by_mover(const paging::Order& o, MemberNo home) {
  auto& loops = engine_.node().loops;
  const unsigned mover = loops.size() > 1 ? 1 + next_mover_++ % static_cast<unsigned>(loops.size() - 1) : 0;
  auto* engine = &engine_;
  auto deliver = [engine, id = id()](const Flight::Report& r) {
    engine->loop().post([engine, id, r] { engine->flight_ended(id, r); });
  };
  auto flight = std::make_shared<Flight>(object_, o.request, o.first, o.count, home, std::move(deliver));
  outstanding_.push_back({o.request, o.first, o.count, home, flight, mover});
  DataLoop* loop = loops[mover].get();
  loop->post([flight, loop] { flight->take_off(*loop); });
}

Cache::Outstanding Cache::take_outstanding(RequestNo request) {
  const auto it = std::find_if(outstanding_.begin(), outstanding_.end(),
                               [&](const Outstanding& o) { return o.request == request; });
  if (it == outstanding_.end()) return {};
  Outstanding taken = std::move(*it);
  *it = std::move(outstanding_.back());
  outstanding_.pop_back();
  return taken;
}

void Cache::abandon(RequestNo request) {
  const Outstanding o = take_outstanding(request);
  if (o.request.value == 0) return;
  engine_.node().counters.retries.fetch_add(1, std::memory_order_relaxed);
  if (o.flight) o.flight->drop();
  engine_.forget(o.home, o.request, o.flight, o.mover);
}

void Cache::arrived(RequestNo request, PageIndex first, std::uint32_t good, std::uint32_t corrupt) {
  engine_.node().counters.pages_fetched.fetch_add(good, std::memory_order_relaxed);
  for (std::uint64_t p = first.value; p < first.value + good; ++p) object_->meta().set_valid(p);
  if (good != 0) feed(paging::Arrived{request, first, good, paging::Verdict::good});
  if (corrupt == 0) return;
  engine_.node().counters.crc_errors.fetch_add(corrupt, std::memory_order_relaxed);
  feed(paging::Arrived{request, PageIndex{first.value + good}, corrupt, paging::Verdict::corrupt});
}

void Cache::answered(std::uint64_t cookie, const transport::Incoming& in) {
  const Outstanding o = take_outstanding(RequestNo{cookie});
  if (o.request.value == 0) return;
  if (in.header.kind != wire::DataKind::data) return feed(paging::Failed{o.request, failure_of(in).code});
  std::array<std::uint32_t, kPagesPerMessageMax> crcs;
  const auto sound = check_crcs(in, crcs);
  const std::uint32_t good = sound ? *sound : 0;
  if (!machine_.lands(o.request, o.first, o.count)) return;
  if (auto s = land(object_->data(), in.header.offset, in.body.first(good * kPageBytes)); !s) {
    engine_.make_room();
    return feed(paging::Failed{o.request, s.error().code});
  }
  arrived(o.request, o.first, good, o.count - good);
}

void Cache::unanswered(std::uint64_t cookie, const Error& why) {
  const Outstanding o = take_outstanding(RequestNo{cookie});
  if (o.request.value != 0) feed(paging::Failed{o.request, why.code});
}

void Cache::flight_ended(const Flight::Report& r) {
  const Outstanding o = take_outstanding(r.request);
  if (o.request.value == 0) return;
  if (r.status == VP_NO_SPACE) engine_.make_room();
  if (r.status != VP_OK) return feed(paging::Failed{r.request, r.status});
  arrived(r.request, r.first, r.good, r.corrupt);
}

}  // namespace vrampool::service::data
