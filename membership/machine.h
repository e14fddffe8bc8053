// The membership machine of one node: member always, coordinator while it holds the term.
//
// Threads: one at a time. Blocking: never. Errors: step() is total, any input in any state; commands end in
// CommandDone. Ownership: holds a copy of the registry; what queries return is valid until the next step(). Units:
// Instants of a clock that runs during suspend.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/limits.h"
#include "membership/io.h"

namespace vrampool::membership {

inline constexpr std::int64_t kTickEveryMs = 50;

struct Options {
  NodeId node{};
  Life life{};  // of this process; durable before the machine is made
  Incarnation incarnation{};
  Duration detection = Duration::millis(kDetectionMs);
  Duration command_deadline = Duration::millis(kControlCallDeadlineMs);
  std::size_t records_per_chunk = 4096;  // of one message that brings a member up to date
};

class Core;

class Machine {
 public:
  // `state` is what the disk holds; a fresh node has a default state and waits for Init. `now`: of the start.
  Machine(Options options, DurableState state, Instant now);
  ~Machine();
  Machine(Machine&&) noexcept;
  Machine& operator=(Machine&&) noexcept;

  void step(const Input& input, Instant now, Outbox& out);

  // Who.
  PoolId pool() const;
  MemberNo self() const;  // 0 before Init
  Life life() const;
  Term term() const;                    // the highest promised
  Epoch epoch() const;                  // of view()
  const wire::ViewT& view() const;      // the last committed one; epoch {} before the first
  const wire::RosterT& roster() const;  // the last committed one
  bool lease_holds(Instant now) const;  // coherent access is allowed
  std::optional<MemberNo> coordinator(
      Instant now) const;       // whom this node follows; nothing when it has not heard one lately
  bool is_coordinator() const;  // holds the term, maybe recovering
  bool is_recovering() const;   // coordinator, but its first view is not committed yet
  bool must_restart() const;    // MustRestart was given
  std::optional<Instant> silent_since(Instant now) const;  // when the coordinator was last heard, if there is none now
  // Is a message of this sender current? Its life is the one the view says is alive. Receivers of data-plane messages
  // use this; equality of epochs is never asked.
  bool is_current(Sender) const;

  // Names. Sealed and coherent segments are found without any lease.
  RecordRef find(SegmentId) const;                     // any state, tombstones too; null if none
  RecordRef find_by_name(std::string_view) const;      // published only
  RecordRef find_reserved(std::string_view) const;     // being created under that name
  std::vector<RecordRef> records() const;              // all, by id
  bool registry_is_current(Instant now) const;         // this node follows a coordinator and is up to date with it
  std::vector<SegmentId> abandoned_creations() const;  // state creating, and the creator's life is over

  std::string describe() const;  // one line on role, positions and peers, for logs and simulator traces

  SegmentId next_segment_id();  // (self, life, count): never given twice

 private:
  std::unique_ptr<Core> core_;
};

}  // namespace vrampool::membership
