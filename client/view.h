// Mapped memory of a segment: one or more contiguous regions, their way through daemon restarts, and what was lost.
//
// Threads: any. Ownership: shared by its handle, its session and the service thread; close() unmaps.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "client/notifier.h"
#include "client/segment.h"
#include "platform/client_view.h"
#include "vrampool/vrampool.h"
#include "wire/local_generated.h"

namespace vrampool::client {

struct Region {
  std::uint64_t daemon_view = 0;
  std::uint64_t offset = 0;  // in the segment; a multiple of the page
  std::uint64_t bytes = 0;
  bool resident = false;
  bool faults = false;  // has cache parts
  bool poisoned = false;
  std::unique_ptr<platform::ClientView> map;
  bool holds(std::uint64_t at, std::uint64_t n) const { return at >= offset && at + n <= offset + bytes; }
};

class View {
 public:
  View(std::shared_ptr<Segment> segment, vp_on_loss on_loss, std::vector<Region> regions)
      : segment_(std::move(segment)), on_loss_(on_loss), regions_(std::move(regions)) {}

  Segment& segment() const { return *segment_; }
  Session& session() const { return segment_->session(); }
  vp_on_loss on_loss() const { return on_loss_; }
  void set_handle(vp_view handle) { handle_ = handle; }
  bool lazy() const;
  bool is_region(std::uint64_t daemon_view) const;

  // ---- what was lost ----
  // The daemon's word on it; aborts the process when the application asked for that.
  LossNote lost(const wire::LossEventT& event);
  void status(vp_view_info& info) const;

  // ---- the service thread ----
  // What to tell a new daemon about region `index`; nothing when it needs to know nothing (any more).
  bool attach_request(std::size_t index, bool reattach, wire::AttachViewT& request,
                      platform::AttachDescriptors& descriptors) const;
  std::size_t regions() const { return regions_.size(); }
  // No daemon serves this view any more: missing pages read as 0xFF from now on. Returns false when nothing changed.
  bool poison(vp_status why, const char* message, LossNote& note);
  std::uint64_t pages_poisoned() const;

  // Unmaps. Returns the daemon's view numbers, to let go of there.
  std::vector<std::uint64_t> close();

 private:
  void note_sticky(vp_status status, std::uint64_t offset, const char* message);
  [[noreturn]] void abort_process(const char* message) const;

  const std::shared_ptr<Segment> segment_;
  const vp_on_loss on_loss_;
  vp_view handle_{};
  mutable std::mutex mutex_;
  std::vector<Region> regions_;
  vp_status sticky_ = VP_OK;
  std::uint64_t first_lost_ = 0, losses_ = 0, heals_ = 0, daemon_pages_lost_ = 0;
  LossNote first_;
};

}  // namespace vrampool::client
