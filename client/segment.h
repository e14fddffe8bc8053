// An open segment: its record as it was opened, its tensors by name, and the pages of it that are half written.
//
// Threads: any. Ownership: shared by its handle, its views and running calls.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "client/limits.h"
#include "wire/record_generated.h"

namespace vrampool::client {

class Session;

struct PinnedRange {
  std::uint64_t offset = 0, bytes = 0;
  auto operator<=>(const PinnedRange&) const = default;
};

class Segment {
 public:
  Segment(std::shared_ptr<Session> session, wire::RecordT record);

  Session& session() const { return *session_; }
  const std::shared_ptr<Session>& session_ptr() const { return session_; }
  // Immutable but for its state, which seal() moves on.
  const wire::RecordT& record() const { return record_; }
  const SegmentId& id() const { return record_.id; }
  wire::SegmentState state() const { return state_.load(); }
  void set_sealed() { state_ = wire::SegmentState::sealed; }
  // Set once the daemon said that the segment was removed.
  bool gone() const { return gone_.load(); }
  void set_gone() { gone_ = true; }

  // -1 if there is none of that name.
  std::int64_t tensor_index(std::string_view name) const;
  // Errors: VP_INVALID when [offset, +bytes) is not inside the segment.
  Status check_range(std::uint64_t offset, std::uint64_t bytes) const;

  // ---- writing, while it is created ----
  Status write(std::uint64_t offset, const std::byte* from, std::uint64_t bytes);
  Status flush_partial_pages();
  void note_whole_pages(std::uint64_t offset, std::uint64_t bytes);
  Status check_writable() const;

  // ---- pins, so that they can be asked for again after a daemon restart ----
  Status add_pin(PinnedRange range);
  void remove_pin(PinnedRange range);
  std::vector<PinnedRange> pins() const;

 private:
  struct PartialPage {
    std::vector<std::byte> bytes;
    std::vector<bool> written;
    std::size_t missing = kPageBytes;
  };
  Status write_part(std::uint64_t offset, const std::byte* from, std::uint64_t bytes);
  Result<PartialPage*> partial_page(std::uint64_t page);
  bool was_sent(std::uint64_t page) const { return page < sent_.size() && sent_[page]; }

  const std::shared_ptr<Session> session_;
  const wire::RecordT record_;
  std::unordered_map<std::string_view, std::uint32_t> by_name_;
  std::atomic<wire::SegmentState> state_;
  std::atomic<bool> gone_{false};
  mutable std::mutex mutex_;
  std::map<std::uint64_t, PartialPage> partial_;  // by page
  std::vector<bool> sent_;                        // pages that have left
  std::vector<PinnedRange> pins_;
};

}  // namespace vrampool::client
