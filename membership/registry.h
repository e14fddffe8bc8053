// The registry of one member: what is committed (and visible), and the changes behind it ("tail").
//
// Threads: one at a time. Ownership: records and changes are shared and immutable.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/limits.h"
#include "membership/quorum.h"

namespace vrampool::membership {

inline constexpr std::size_t kRecordsMax = 65536;

using RecordMap = std::map<SegmentId, RecordRef>;

// What a commit made visible.
struct Committed {
  std::vector<RecordRef> applied;
  std::vector<SegmentId> erased;
  bool roster = false;   // anything of it
  bool members = false;  // who is on it
  bool view = false;
};

class Registry {
 public:
  explicit Registry(const DurableState&);

  // Visible.
  RecordVersion committed() const { return committed_version_; }
  const RecordMap& records() const { return committed_.records; }
  const wire::RosterT& roster() const { return committed_.roster; }
  const wire::ViewT& view() const { return committed_.view; }
  RecordRef published(std::string_view name) const;
  RecordRef reserved(std::string_view name) const;

  // With what is not committed yet: what the coordinator decides on, and what a candidate brings along.
  RecordVersion position() const { return position_; }
  const RecordMap& tail_records() const { return tail_.records; }
  const wire::RosterT& tail_roster() const { return tail_.roster; }
  const wire::ViewT& tail_view() const { return tail_.view; }
  RecordRef tail_find(const SegmentId&) const;
  const std::deque<ChangeRef>& pending() const { return pending_; }
  wire::DigestT digest() const;

  // REQUIRES: change->version > position().
  void append(ChangeRef change, std::vector<DurableOp>& ops);
  // Makes pending changes up to `through` visible; those before a reset only together with it.
  Committed commit(RecordVersion through, std::vector<DurableOp>& ops);

 private:
  struct Image {
    RecordMap records;
    wire::RosterT roster;
    wire::ViewT view;
  };
  static void apply_to(Image&, const wire::ChangeT&);
  std::size_t committable(RecordVersion through) const;
  void settle(const RecordMap& before, Committed& result, std::vector<DurableOp>& ops);
  void index_names(const RecordMap& before);

  RecordVersion committed_version_{};
  RecordVersion position_{};
  Image committed_;
  Image tail_;
  std::deque<ChangeRef> pending_;
  std::map<std::string, SegmentId, std::less<>> published_;
};

bool is_published(const wire::RecordT&);
// Members that hold or held pieces of it and are on the roster.
std::vector<std::uint16_t> hosts_of(const wire::RecordT&, const wire::RosterT&);
// Takes over what is known only when the bytes are there: pieces, tensors, files, ranges, format.
void take_parts(wire::RecordT& into, const wire::RecordT& from);
wire::RecordT tombstone_of(const wire::RecordT&, const wire::RosterT&);
// About how many bytes it takes on the wire.
std::size_t approximate_bytes(const wire::RecordT&);

}  // namespace vrampool::membership
