// What goes into the membership machine and what comes out of it. Everything is a value.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "membership/durable.h"

namespace vrampool::membership {

// ---- Inputs ----

// A message of a peer, decoded and verified by the caller; delivered late, twice or never is fine.
struct PeerMessage {
  wire::MembershipMessageT message;
};
// Time passes. Wanted every kTickEveryMs; late is safe, lease ends are also seen by every other step.
struct Tick {};
// All Persist orders up to `no` are on disk. Orders end in the order in which they were given.
struct Persisted {
  std::uint64_t no = 0;
};

// Commands. Each ends in exactly one CommandDone with the same `no` (chosen by the caller, not reused in this life).
// Those marked * go to the coordinator, are repeated until answered and may end as VP_UNKNOWN_OUTCOME.
struct Init {
  PoolId pool;
  std::string name;
  std::vector<std::string> addresses;
  std::string machine;
};  // first member of a new pool
struct Admit {
  NodeId node;
  std::string name;
  std::vector<std::string> addresses;
  std::string machine;
};  // * done: member, roster
struct Forget {
  MemberNo member;
};                // * a dead member's number is never used again; its pieces count as freed
struct Leave {};  // * this node forgets itself; ends in MustRestart{forgotten}
// This node wants to coordinate. With `force` it may do so without the members in `abandoned`; they come back empty.
struct Promote {
  bool force = false;
  std::vector<MemberNo> abandoned;
};
// * `record.id` must be fresh (next_segment_id) and is the idempotency key: the same create twice is one segment. The
// coordinator sets version, state, and `address` (a range of its slot). Reserves the name until seal or remove.
struct Create {
  wire::RecordT record;
  bool expect_absent = false;
};
// * Publishes: creating -> sealed or coherent (by kind), and the name points here; the segment that had the name is
// removed in the same change (or lives on nameless: `keep_replaced`). `record.id` names it; if `replace_parts`, then
// pieces, tensors, files, ranges and format are taken from `record` (hashes are known only now).
struct Seal {
  wire::RecordT record;
  bool replace_parts = false;
  bool keep_replaced = false;
};
struct Rename {
  SegmentId id;
  std::string name;
};  // *
struct Remove {
  SegmentId id;
};  // * the record becomes a tombstone
struct Update {
  wire::RecordT record;
};  // * pieces, layout_version, autoload, mode, principal of a live record
struct Freed {
  SegmentId id;
};  // * "this node holds no piece of the tombstone any more"
struct Command {
  std::uint64_t no = 0;
  std::variant<Init, Admit, Forget, Leave, Promote, Create, Seal, Rename, Remove, Update, Freed> what;
};

using Input = std::variant<PeerMessage, Tick, Persisted, Command>;

// ---- Outputs ----

// Send it to the member (relayed if need be), or drop it if there is no way. A member that is not on roster() yet
// (it joined while this node was away) is answered on the connection on which it spoke.
struct Send {
  MemberNo to;
  wire::MembershipMessageT message;
};
// Apply `ops` in one transaction, then step(Persisted{no}). `sync`: fsync before that; without it the answer may come
// at once (nothing waits for it). The machine holds back whatever depends on it.
struct Persist {
  std::uint64_t no = 0;
  std::vector<DurableOp> ops;
  bool sync = true;
};
// A newly committed view. All deaths of it are to be applied before any new grant.
struct ViewChanged {
  wire::ViewT view;
};
// A record became visible on this node, changed, or turned into a tombstone (state deleted: free your pieces, then
// issue Freed if you are in tombstone_waits_for).
struct RecordApplied {
  RecordRef record;
};
// The registry forgot it: its tombstone is no longer needed.
struct RecordErased {
  SegmentId id;
};
struct RosterChanged {
  wire::RosterT roster;
};
struct CommandDone {
  std::uint64_t no = 0;
  vp_status code = VP_OK;
  std::string message;                          // empty when ok
  RecordRef record;                             // create, seal, rename, remove, update: as committed
  MemberNo member{};                            // admit
  std::shared_ptr<const wire::RosterT> roster;  // admit: what the new node needs for joined_state()
};
struct LeaseGained {};
struct LeaseLost {};  // coherent access stops now; sealed reads go on
struct BecameCoordinator {
  Term term;
};  // still `recovering` until the first view of the term is committed
struct Deposed {
  Term by;
};
// This life is over: the machine says nothing more. The host starts a new life (and with `forgotten` wipes its memory
// and its durable state, and joins anew).
struct MustRestart {
  bool forgotten = false;
};

using Output = std::variant<Send, Persist, ViewChanged, RecordApplied, RecordErased, RosterChanged, CommandDone,
                            LeaseGained, LeaseLost, BecameCoordinator, Deposed, MustRestart>;
// In order. The caller takes all of it after each step.
using Outbox = std::vector<Output>;

}  // namespace vrampool::membership
