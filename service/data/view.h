// A client's mapping of a segment: which parts of it fault, where its faults come from, and what it lost.
#pragma once

#include <memory>
#include <vector>

#include "platform/view_faults.h"
#include "service/data/cache.h"
#include "service/data/event_loop.h"

namespace vrampool::service::data {

class Engine;

// Threads: the engine's. Ownership: the engine owns it; it uses a cache unless all of it is mapped directly.
class View final : public Watched {
 public:
  View(Engine& engine, std::uint64_t id, ClientNo client, SegmentId segment, std::uint64_t offset, std::uint64_t bytes)
      : engine_(engine), id_(id), client_(client), segment_(segment), offset_(offset), bytes_(bytes) {}
  ~View() override;

  std::uint64_t id() const { return id_; }
  ClientNo client() const { return client_; }
  SegmentId segment() const { return segment_; }
  Cache* cache() const { return cache_; }
  void use(Cache& cache);

  // A part that faults: pages of the segment. At most kPartsMax.
  static constexpr std::size_t kPartsMax = kDescriptorsPerMessageMax;
  void add_part(PageIndex first, std::uint64_t count);
  void keep_pinned(PageIndex first, std::uint64_t count);
  Status attach(const wire::AttachViewT&, std::vector<UniqueFd> descriptors);
  bool attached() const { return faults_ != nullptr; }

  void reveal(PageIndex first, std::uint32_t count);
  platform::RevokeState revoke(PageIndex first, std::uint32_t count);
  void wake(PageIndex first, std::uint32_t count);
  void tell_loss(PageIndex first, std::uint32_t count, vp_status status, bool abort);
  void tell_healed();
  // Faults that the machine had no room for.
  void feed_deferred();
  bool overlaps(PageIndex first, std::uint64_t count) const;

 private:
  struct Part {
    paging::ViewNo no{};
    PageIndex first{};
    std::uint64_t count = 0;
  };
  struct Clip {
    std::uint64_t offset = 0, bytes = 0;  // in the view; 0 bytes: outside
  };
  static constexpr std::size_t kLossesMax = 64;
  static constexpr std::size_t kDeferredMax = 1024;

  void on_event(const platform::PollEvent&) override;
  void take_fault(PageIndex page);
  Clip clip(PageIndex first, std::uint64_t count) const;
  void post_loss(PageIndex first, std::uint32_t count, vp_status status, std::string message, bool healed);

  Engine& engine_;
  std::uint64_t id_;
  ClientNo client_;
  SegmentId segment_;
  std::uint64_t offset_, bytes_;
  Cache* cache_ = nullptr;
  std::vector<Part> parts_;
  PageIndex pinned_first_{};
  std::uint64_t pinned_count_ = 0;
  paging::OnLoss on_loss_ = paging::OnLoss::poison;
  std::unique_ptr<platform::ViewFaults> faults_;
  EventLoop::Token token_ = 0;
  std::vector<PageIndex> deferred_;
  struct Loss {
    PageIndex first{};
    std::uint32_t count = 0;
  };
  std::vector<Loss> losses_;
};

}  // namespace vrampool::service::data
