// The engine: caches and views of this node's clients, on the engine's loop. It turns faults into page requests and
// answers into revealed pages.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "service/data/cache.h"
#include "service/data/data_loop.h"
#include "service/data/view.h"

namespace vrampool::service::data {

using MappedView = DataPlane::MappedView;

// Answers on the control thread, where every Done belongs.
template <class T>
void reply(const Node& node, const DoneWith<T>& done, Result<T> value) {
  if (!done) return;
  auto kept = std::make_shared<Result<T>>(std::move(value));
  node.options.post([done, kept] { done(std::move(*kept)); });
}
inline void reply(const Node& node, const Done& done, Status status) {
  if (done) node.options.post([done, status = std::move(status)] { done(status); });
}

// Threads: the engine's loop. Ownership: owns caches and views.
class Engine {
 public:
  Engine(Node& node, DataLoop& loop);
  ~Engine();
  // Caches that an earlier life left. Before the loop starts.
  void adopt_caches();

  Node& node() { return node_; }
  DataLoop& loop() { return loop_; }

  // After the loop took the new view. A home that restarted and kept its memory is not lost: its pages are waited for.
  void members_changed();
  void open_record(const Record&);
  void close_record(SegmentId);

  void map(ClientNo, const wire::MapSegmentT&, DoneWith<MappedView>);
  void attach(ClientNo, const wire::AttachViewT&, std::vector<UniqueFd>, Done);
  void unmap(ClientNo, std::uint64_t view, Done);
  void client_gone(ClientNo);
  void prefetch(const wire::PrefetchT&, Done);
  void pin(ClientNo, const wire::PinRangeT&, Done);
  void range_status(const wire::RangeStatusT&, DoneWith<wire::RangeStatusReplyT>);

  // ---- for caches and views ----
  void flight_ended(SegmentId, const Flight::Report&);
  void forget(MemberNo home, RequestNo, const std::shared_ptr<Flight>&, unsigned mover);
  // Wants a tick at `next`; looks at the budget there too.
  void cache_moved(Instant next) { loop_.events().wake_at(next); }
  void make_room() { make_room_ = true, loop_.events().wake_at({}); }
  void lose_view(View&);          // at once: `view` is gone afterwards
  void doom(std::uint64_t view);  // at the next tick
  void reveal_later(std::uint64_t view, PageIndex first, std::uint32_t count);

 private:
  struct Pin {
    SegmentId segment{};
    PageIndex first{};
    std::uint64_t count = 0;
  };
  struct Reveal {
    std::uint64_t view = 0;
    PageIndex first{};
    std::uint32_t count = 0;
  };
  struct Orphan {
    CachePtr object;
    Instant until{};
  };
  // What a map shall consist of; objects are looked up when it is granted.
  struct Plan {
    SegmentId segment{};
    std::uint64_t offset = 0, bytes = 0;
    std::vector<wire::ViewPartT> parts;
  };

  Instant tick(Instant now);
  void end_doomed();
  void keep_budget(Instant now);
  std::uint64_t evict_some(std::uint64_t pages);
  bool drop_unused(bool even_useful);
  void drop_orphans(Instant now);

  Result<DataLoop::Segment*> opened(SegmentId, std::uint64_t offset, std::uint64_t& bytes);
  Result<Cache*> cache_of(SegmentId);
  Cache* find_cache(SegmentId);
  CachePtr take_orphan(SegmentId);
  void tell_sources(Cache&);
  Plan plan_lazy(DataLoop::Segment&, SegmentId, std::uint64_t offset, std::uint64_t bytes);
  std::optional<Plan> plan_direct(SegmentId, std::uint64_t offset, std::uint64_t bytes);
  Result<MappedView> grant(ClientNo, const Plan&, bool resident);
  Result<UniqueFd> descriptor_of(SegmentId, const wire::ViewPartT&, std::uint64_t segment_offset);
  void map_resident(ClientNo, const wire::MapSegmentT&, DoneWith<MappedView>);
  Result<View*> view_of(ClientNo, std::uint64_t id);
  Result<View*> revive(ClientNo, const wire::AttachViewT&);
  View& new_view(std::uint64_t id, ClientNo, const Plan&);

  Node& node_;
  DataLoop& loop_;
  std::map<SegmentId, std::unique_ptr<Cache>> caches_;
  std::map<SegmentId, Orphan> orphans_;
  std::map<std::uint64_t, std::unique_ptr<View>> views_;
  std::map<ClientNo, std::vector<Pin>> pins_;
  std::map<MemberNo, Incarnation> homes_;  // that live
  std::set<std::uint64_t> doomed_;
  std::vector<Reveal> reveals_;
  std::uint64_t next_view_;
  std::uint64_t next_cache_ = 0;
  bool make_room_ = false;
  Instant next_budget_{};
};

}  // namespace vrampool::service::data
