// The engine's maps, views, pins and prefetches.
#include <algorithm>

#include "platform/clock.h"
#include "service/data/engine.h"
#include "service/data/map_plan.h"

namespace vrampool::service::data {
namespace {

constexpr std::size_t kPinsPerClientMax = 4096;

}  // namespace

// ---- map ----

void Engine::map(ClientNo client, const wire::MapSegmentT& ask, DoneWith<MappedView> done) {
  std::uint64_t bytes = ask.bytes;
  auto segment = opened(ask.id, ask.offset, bytes);
  if (!segment) return reply<MappedView>(node_, done, segment.take_error());
  if (views_.size() >= kSessionsMax * kViewsPerSessionMax)
    return reply<MappedView>(node_, done, error(VP_BUSY, "too many maps on this node"));
  if (const auto direct = plan_direct(ask.id, ask.offset, bytes))
    return reply(node_, done, grant(client, *direct, false));
  if (!ask.resident)
    return reply(node_, done,
                 grant(client, {ask.id, ask.offset, bytes, plan_parts(loop_, ask.id, ask.offset, bytes)}, false));
  wire::MapSegmentT exact = ask;
  exact.bytes = bytes;
  map_resident(client, exact, std::move(done));
}

// All of it lies in one piece of this node.
std::optional<Engine::Plan> Engine::plan_direct(SegmentId id, std::uint64_t offset, std::uint64_t bytes) {
  auto parts = plan_parts(loop_, id, offset, bytes);
  if (parts.size() != 1 || parts[0].kind != wire::PartKind::direct) return std::nullopt;
  return Plan{id, offset, bytes, std::move(parts)};
}

void Engine::map_resident(ClientNo client, const wire::MapSegmentT& ask, DoneWith<MappedView> done) {
  auto cache = cache_of(ask.id);
  if (!cache) return reply<MappedView>(node_, done, cache.take_error());
  std::uint64_t pinned = 0;
  for (const auto& [id, other] : caches_) pinned += other->machine().counts().pinned * kPageBytes;
  if (ask.bytes + pinned > node_.options.cache_bytes)
    return reply<MappedView>(
        node_, done,
        error(VP_NO_SPACE,
              "a resident map of {} bytes does not fit into the cache of {} bytes; raise cache_bytes or map it lazily",
              ask.bytes, node_.options.cache_bytes));
  const PageIndex first{ask.offset / kPageBytes};
  const std::uint64_t count = ask.bytes / kPageBytes;
  Plan plan{ask.id, ask.offset, ask.bytes, {}};
  plan.parts.emplace_back();
  plan.parts[0].kind = wire::PartKind::resident;
  plan.parts[0].object_offset = ask.offset;
  plan.parts[0].bytes = ask.bytes;
  Cache* c = *cache;
  ++c->users;
  const Status asked =
      c->want(first, count, paging::Priority::resident, [this, c, client, plan, first, count, done](vp_status status) {
        --c->users;
        if (status != VP_OK)
          return reply<MappedView>(node_, done,
                                   error(status, "segment {} cannot be made resident: its pages at {} do not come",
                                         to_text(plan.segment), plan.offset));
        c->object().grant_resident();
        auto granted = grant(client, plan, true);
        if (granted)
          views_.at(granted->view)->keep_pinned(first, count);
        else
          c->feed(paging::Unpin{first, count});
        reply(node_, done, std::move(granted));
      });
  if (asked) return;
  --c->users;
  reply<MappedView>(node_, done, asked.error());
}

View& Engine::new_view(std::uint64_t id, ClientNo client, const Plan& plan) {
  auto& view = views_[id] = std::make_unique<View>(*this, id, client, plan.segment, plan.offset, plan.bytes);
  node_.counters.views.store(views_.size(), std::memory_order_relaxed);
  return *view;
}

Result<MappedView> Engine::grant(ClientNo client, const Plan& plan, bool resident) {
  const bool needs_cache =
      std::any_of(plan.parts.begin(), plan.parts.end(), [](const auto& p) { return p.kind != wire::PartKind::direct; });
  Cache* cache = nullptr;
  if (needs_cache) {
    VP_TRY(found, cache_of(plan.segment));
    cache = found;
  }
  MappedView out;
  for (const auto& p : plan.parts) {
    VP_TRY(fd, descriptor_of(plan.segment, p, plan.offset));
    out.descriptors.push_back(std::move(fd));
  }
  out.view = ++next_view_;
  out.parts = plan.parts;
  View& view = new_view(out.view, client, plan);
  if (cache != nullptr) view.use(*cache);
  for (const auto& p : plan.parts)
    if (p.kind == wire::PartKind::cache && !resident)
      view.add_part(PageIndex{p.object_offset / kPageBytes}, p.bytes / kPageBytes);
  return out;
}

Result<UniqueFd> Engine::descriptor_of(SegmentId id, const wire::ViewPartT& p, std::uint64_t segment_offset) {
  if (p.kind != wire::PartKind::direct) return find_cache(id)->object().data().read_only_descriptor();
  const Piece* piece = loop_.find_piece(id, segment_offset + p.view_offset, p.bytes);
  VP_ASSERT(piece != nullptr);
  return piece->read_only_descriptor();
}

// ---- views ----

Result<View*> Engine::view_of(ClientNo client, std::uint64_t id) {
  const auto it = views_.find(id);
  if (it == views_.end() || it->second->client() != client)
    return error(VP_NOT_FOUND, "this client has no view {}", id);
  return it->second.get();
}

// A client of an earlier life of this daemon: its mapping stands, only we forgot it.
Result<View*> Engine::revive(ClientNo client, const wire::AttachViewT& ask) {
  std::uint64_t bytes = ask.bytes;
  VP_CHECK(opened(ask.id, ask.segment_offset, bytes));
  if (views_.contains(ask.view)) return error(VP_EXISTS, "view {} belongs to another client", ask.view);
  Plan plan{ask.id, ask.segment_offset, ask.bytes, plan_parts(loop_, ask.id, ask.segment_offset, ask.bytes)};
  const bool needs_cache =
      std::any_of(plan.parts.begin(), plan.parts.end(), [](const auto& p) { return p.kind == wire::PartKind::cache; });
  Cache* cache = nullptr;
  if (needs_cache) {
    VP_TRY(found, cache_of(ask.id));
    cache = found;
  }
  View& view = new_view(ask.view, client, plan);
  if (cache == nullptr) return &view;
  view.use(*cache);
  const PageIndex first{ask.segment_offset / kPageBytes};
  if (ask.resident) {
    cache->object().grant_resident();
    cache->feed(paging::Pin{first, ask.bytes / kPageBytes});
    view.keep_pinned(first, ask.bytes / kPageBytes);
    return &view;
  }
  for (const auto& p : plan.parts)
    if (p.kind == wire::PartKind::cache) view.add_part(PageIndex{p.object_offset / kPageBytes}, p.bytes / kPageBytes);
  return &view;
}

void Engine::attach(ClientNo client, const wire::AttachViewT& ask, std::vector<UniqueFd> descriptors, Done done) {
  auto view = view_of(client, ask.view);
  if (!view && ask.reattach) view = revive(client, ask);
  if (!view) return reply(node_, done, view.take_error());
  const Status attached = (*view)->attach(ask, std::move(descriptors));
  if (!attached && !(*view)->attached() && ask.reattach) lose_view(**view);
  reply(node_, done, attached);
}

void Engine::unmap(ClientNo client, std::uint64_t id, Done done) {
  auto view = view_of(client, id);
  if (!view) return reply(node_, done, view.take_error());
  lose_view(**view);
  reply(node_, done, Status{});
}

void Engine::client_gone(ClientNo client) {
  std::vector<std::uint64_t> ended;
  for (const auto& [id, view] : views_)
    if (view->client() == client) ended.push_back(id);
  for (const auto id : ended) lose_view(*views_.at(id));
  if (const auto it = pins_.find(client); it != pins_.end()) {
    for (const Pin& p : it->second)
      if (Cache* cache = find_cache(p.segment)) cache->feed(paging::Unpin{p.first, p.count});
    pins_.erase(it);
  }
}

// ---- wishes ----

void Engine::prefetch(const wire::PrefetchT& ask, Done done) {
  std::uint64_t bytes = ask.bytes;
  auto segment = opened(ask.id, ask.offset, bytes);
  if (!segment) return reply(node_, done, segment.take_error());
  struct Progress {
    std::size_t left = 1;
    vp_status status = VP_OK;
  };
  auto progress = std::make_shared<Progress>();
  const auto finish = [this, progress, done, wait = ask.wait](vp_status status) {
    if (status != VP_OK) progress->status = status;
    if (--progress->left != 0 || !wait) return;
    reply(
        node_, done,
        progress->status == VP_OK ? Status{} : Status(error(progress->status, "not all of the prefetched range came")));
  };
  for (const auto& p : plan_parts(loop_, ask.id, ask.offset, bytes)) {
    if (p.kind == wire::PartKind::direct) continue;
    auto cache = cache_of(ask.id);
    if (!cache) return reply(node_, done, cache.take_error());
    (*cache)->last_used = platform::now();
    ++progress->left;
    if (auto s = (*cache)->want(PageIndex{p.object_offset / kPageBytes}, p.bytes / kPageBytes,
                                paging::Priority::prefetch, finish);
        !s)
      finish(s.error().code);
  }
  finish(VP_OK);
  if (!ask.wait) reply(node_, done, Status{});
}

void Engine::pin(ClientNo client, const wire::PinRangeT& ask, Done done) {
  std::uint64_t bytes = ask.bytes;
  auto segment = opened(ask.id, ask.offset, bytes);
  if (!segment) return reply(node_, done, segment.take_error());
  const Pin wanted{ask.id, PageIndex{ask.offset / kPageBytes}, bytes / kPageBytes};
  auto& pins = pins_[client];
  const auto same = [&](const Pin& p) {
    return p.segment == wanted.segment && p.first == wanted.first && p.count == wanted.count;
  };
  const auto it = std::find_if(pins.begin(), pins.end(), same);
  if (ask.unpin && it == pins.end())
    return reply(node_, done, error(VP_NOT_FOUND, "that range is not pinned by this client"));
  if (!ask.unpin && pins.size() >= kPinsPerClientMax)
    return reply(node_, done, error(VP_BUSY, "this client has pinned {} ranges already", pins.size()));
  auto cache = cache_of(ask.id);
  if (!cache) return reply(node_, done, cache.take_error());
  if (ask.unpin) {
    pins.erase(it);
    (*cache)->feed(paging::Unpin{wanted.first, wanted.count});
  } else {
    pins.push_back(wanted);
    (*cache)->feed(paging::Pin{wanted.first, wanted.count});
  }
  reply(node_, done, Status{});
}

void Engine::range_status(const wire::RangeStatusT& ask, DoneWith<wire::RangeStatusReplyT> done) {
  std::uint64_t bytes = ask.bytes;
  auto segment = opened(ask.id, ask.offset, bytes);
  if (!segment) return reply<wire::RangeStatusReplyT>(node_, done, segment.take_error());
  wire::RangeStatusReplyT out;
  out.pages = bytes / kPageBytes;
  std::uint64_t absent_home = 0;
  for (std::uint64_t at = ask.offset, end = ask.offset + bytes; at < end;) {
    const auto& run = (*segment)->placement.at(at);
    const std::uint64_t next = std::min(end, run.offset + run.bytes);
    if (run.home == node_.self().member) out.local += (next - at) / kPageBytes;
    if (run.home != node_.self().member && !loop_.alive(run.home)) absent_home += (next - at) / kPageBytes;
    at = next;
  }
  out.remote = out.pages - out.local;
  out.lost = absent_home;
  if (const Cache* cache = find_cache(ask.id)) {
    const auto c = cache->machine().count(PageIndex{ask.offset / kPageBytes}, out.pages);
    out.cached = c.valid;
    out.lost = std::max<std::uint64_t>(c.poisoned, absent_home > c.valid ? absent_home - c.valid : 0);
    out.pinned = c.pinned;
  }
  reply<wire::RangeStatusReplyT>(node_, done, std::move(out));
}

}  // namespace vrampool::service::data
