#include "service/data/engine.h"

#include <algorithm>
#include <limits>

#include "base/log.h"
#include "platform/clock.h"

namespace vrampool::service::data {
namespace {

// A cache that a restarted daemon found is kept this long for clients that come back.
constexpr Duration kOrphanGrace = Duration::seconds(120);
// When nothing can be evicted, or a revoke ring is full: how soon to look again.
constexpr Duration kBudgetRest = Duration::millis(20);
constexpr std::uint64_t kEvictPagesPerTick = 2048;

}  // namespace

Engine::Engine(Node& node, DataLoop& loop)
    : node_(node), loop_(loop), next_view_((node.self().life.value & 0xffff'ffff) << 28) {
  loop_.engine_tick = [this](Instant now) { return tick(now); };
  loop_.from_cache = [this](SegmentId id, std::uint64_t offset, std::span<std::byte> into) {
    const Cache* cache = find_cache(id);
    return cache != nullptr && cache->copy_out(offset, into);
  };
}

Engine::~Engine() {
  loop_.engine_tick = nullptr;
  loop_.from_cache = nullptr;
  views_.clear();
  caches_.clear();
}

void Engine::adopt_caches() {
  node_.store.with_objects([&](platform::ObjectStore& objects) {
    const auto names = objects.list();
    for (const auto& name : names ? *names : std::vector<std::string>{}) {
      const auto id = parse_cache_meta_name(name);
      if (!id) continue;
      auto cache = CacheObject::adopt(objects, *id, node_.boot);
      if (cache)
        orphans_[*id] = {std::move(*cache), platform::now() + kOrphanGrace};
      else
        CacheObject::remove(objects, *id);
    }
  });
}

// ---- who lives, what there is ----

void Engine::members_changed() {
  const auto was = std::exchange(homes_, loop_.incarnations());
  const auto differs = [](const auto& map, const auto& entry) {
    const auto it = map.find(entry.first);
    return it == map.end() || it->second != entry.second;
  };
  for (auto& [id, cache] : caches_) {
    if (auto* segment = loop_.find(id); segment != nullptr && segment->record) cache->relayout(segment->placement);
    if (was.empty()) tell_sources(*cache);
    for (const auto& home : was)
      if (differs(homes_, home)) cache->feed(paging::SourceLost{paging::SourceNo{home.first.value}});
    bool back = false;
    for (const auto& home : homes_) {
      if (!differs(was, home)) continue;
      cache->feed(paging::SourceBack{paging::SourceNo{home.first.value}});
      back = true;
    }
    if (back) cache->tell_healed();
  }
  for (const auto& [member, incarnation] : homes_)
    if (PeerLink* peer = loop_.peer(member)) peer->dial();
}

void Engine::open_record(const Record& record) {
  Cache* cache = find_cache(record->id);
  auto* segment = loop_.find(record->id);
  if (cache == nullptr || segment == nullptr || !segment->record) return;
  cache->set_record(segment->record);
  cache->relayout(segment->placement);
}

void Engine::close_record(SegmentId id) {
  if (Cache* cache = find_cache(id)) cache->closed = true;
  drop_unused(false);
  if (const auto object = take_orphan(id))
    node_.store.with_objects([&](auto& objects) { CacheObject::remove(objects, id); });
}

Cache* Engine::find_cache(SegmentId id) {
  const auto it = caches_.find(id);
  return it == caches_.end() ? nullptr : it->second.get();
}

CachePtr Engine::take_orphan(SegmentId id) {
  const auto it = orphans_.find(id);
  if (it == orphans_.end()) return nullptr;
  CachePtr object = std::move(it->second.object);
  orphans_.erase(it);
  return object;
}

Result<DataLoop::Segment*> Engine::opened(SegmentId id, std::uint64_t offset, std::uint64_t& bytes) {
  auto* segment = loop_.find(id);
  if (segment == nullptr || !segment->record)
    return error(VP_STALE, "segment {} is not open here; open it first", to_text(id));
  const auto& record = *segment->record;
  if (record.state != wire::SegmentState::sealed)
    return error(VP_BUSY, "segment '{}' is not sealed yet; seal it, then map it", record.name);
  if (bytes == 0 && offset < record.bytes) bytes = record.bytes - offset;
  if (bytes == 0 || offset % kPageBytes != 0 || bytes % kPageBytes != 0 || offset > record.bytes ||
      bytes > record.bytes - offset)
    return error(VP_INVALID, "{} bytes at {} are no whole pages of segment '{}' ({} bytes)", bytes, offset, record.name,
                 record.bytes);
  return segment;
}

Result<Cache*> Engine::cache_of(SegmentId id) {
  if (Cache* cache = find_cache(id)) {
    if (cache->closed) return error(VP_STALE, "segment {} was removed", to_text(id));
    return cache;
  }
  auto* segment = loop_.find(id);
  VP_ASSERT(segment != nullptr && segment->record);
  CachePtr object = take_orphan(id);
  if (object != nullptr && object->bytes() != segment->placement.bytes()) object = nullptr;
  const bool adopted = object != nullptr;
  if (!adopted) {
    VP_TRY(made, node_.store.with_objects([&](auto& objects) {
      return CacheObject::create(objects, id, segment->placement.bytes(), node_.boot);
    }));
    object = std::move(made);
  }
  const RequestNo first{(0x10000 + ++next_cache_) << kRequestCounterBits};
  auto& cache = caches_[id] =
      std::make_unique<Cache>(*this, std::move(object), segment->record, segment->placement, first);
  cache->last_used = platform::now();
  tell_sources(*cache);
  if (adopted) {
    cache->object().punch_invalid();
    cache->adopt_valid();
  }
  return cache.get();
}

// Homes that are not in the view are lost from the start: nobody shall wait for a deadline that is known to pass.
// Before this life has seen a view nobody is known to be dead: a fault that waited for this daemon must not be poisoned
// by it.
void Engine::tell_sources(Cache& cache) {
  if (loop_.lives().empty()) return;
  for (const auto& run : loop_.find(cache.id())->placement.runs())
    if (run.home != node_.self().member && !loop_.alive(run.home))
      cache.feed(paging::SourceLost{paging::SourceNo{run.home.value}});
}

// ---- for caches and views ----

void Engine::flight_ended(SegmentId id, const Flight::Report& report) {
  if (Cache* cache = find_cache(id)) cache->flight_ended(report);
}

void Engine::forget(MemberNo home, RequestNo request, const std::shared_ptr<Flight>& flight, unsigned mover) {
  if (!flight) {
    if (PeerLink* peer = loop_.peer(home)) peer->forget(request);
    return;
  }
  DataLoop* loop = node_.loops[mover].get();
  loop->post([flight, loop] { flight->forget(*loop); });
}

void Engine::lose_view(View& view) {
  views_.erase(view.id());
  node_.counters.views.store(views_.size(), std::memory_order_relaxed);
  drop_unused(false);
}

void Engine::doom(std::uint64_t view) {
  doomed_.insert(view);
  loop_.events().wake_at({});
}

void Engine::reveal_later(std::uint64_t view, PageIndex first, std::uint32_t count) {
  reveals_.push_back({view, first, count});
  loop_.events().wake_at({});
}

void Engine::end_doomed() {
  for (const auto id : std::exchange(doomed_, {}))
    if (const auto it = views_.find(id); it != views_.end()) lose_view(*it->second);
}

// ---- the tick: deadlines and the budget ----

Instant Engine::tick(Instant now) {
  end_doomed();
  for (const auto& r : std::exchange(reveals_, {}))
    if (const auto it = views_.find(r.view); it != views_.end()) it->second->reveal(r.first, r.count);
  Instant next = kNever;
  for (auto& [id, cache] : caches_) {
    cache->feed_deferred();
    cache->revoke_again();
    if (cache->machine().next_deadline() <= now) cache->feed(paging::Tick{});
  }
  drop_orphans(now);
  keep_budget(now);
  for (auto& [id, cache] : caches_) next = std::min(next, cache->machine().next_deadline());
  for (const auto& [id, orphan] : orphans_) next = std::min(next, orphan.until);
  if (next_budget_.ns != 0) next = std::min(next, next_budget_);
  if (!doomed_.empty() || !reveals_.empty()) next = now;
  return next;
}

void Engine::drop_orphans(Instant now) {
  for (auto it = orphans_.begin(); it != orphans_.end();) {
    if (it->second.until > now) {
      ++it;
      continue;
    }
    node_.store.with_objects([&](auto& objects) { CacheObject::remove(objects, it->first); });
    it = orphans_.erase(it);
  }
}

void Engine::keep_budget(Instant now) {
  const std::uint64_t used = node_.counters.cache_bytes.load(std::memory_order_relaxed);
  const bool over = used > node_.options.cache_bytes;
  if (!over && !make_room_) return void(next_budget_ = {});
  if (next_budget_ > now) return;
  make_room_ = false;
  const std::uint64_t excess =
      over ? (used - node_.options.cache_bytes + kPageBytes - 1) / kPageBytes : kPagesPerMessageMax;
  const std::uint64_t freed = evict_some(std::min(excess, kEvictPagesPerTick));
  // Pages that are asked for again at once, or pinned, stay: look again soon, but not in a circle.
  next_budget_ = freed == 0 || freed < excess ? now + (freed == 0 ? kBudgetRest : Duration{}) : Instant{};
}

// Whole caches that nobody uses first, then pages of the least recently used ones. Returns pages.
std::uint64_t Engine::evict_some(std::uint64_t pages) {
  const auto valid = [this] { return node_.counters.cache_bytes.load(std::memory_order_relaxed) / kPageBytes; };
  const std::uint64_t before = valid();
  std::vector<Cache*> order;
  for (auto& [id, cache] : caches_) order.push_back(cache.get());
  std::sort(order.begin(), order.end(), [](const Cache* a, const Cache* b) { return a->last_used < b->last_used; });
  for (Cache* cache : order) {
    const std::uint64_t freed = before - valid();
    if (freed >= pages) break;
    const bool whole_only = cache->object().granted_resident() || platform::SharedObject::release_granule_bytes() == 0;
    if (whole_only && cache->users == 0) {
      node_.store.with_objects([&](auto& objects) { CacheObject::remove(objects, cache->id()); });
      node_.counters.evicted_pages.fetch_add(cache->machine().counts().valid, std::memory_order_relaxed);
      caches_.erase(cache->id());
    } else if (!whole_only) {
      cache->feed(paging::Evict{pages - freed});
    }
  }
  return before - valid();
}

// Caches of removed segments go with their last user.
bool Engine::drop_unused(bool even_useful) {
  bool any = false;
  for (auto it = caches_.begin(); it != caches_.end();) {
    if (it->second->users != 0 || !(it->second->closed || even_useful)) {
      ++it;
      continue;
    }
    node_.store.with_objects([&](auto& objects) { CacheObject::remove(objects, it->first); });
    it = caches_.erase(it);
    any = true;
  }
  return any;
}

}  // namespace vrampool::service::data
