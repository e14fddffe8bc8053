// What a member keeps on disk: a plain struct, and the small operations by which it changes. The host stores it
// (SQLite), the simulator keeps it in memory.
//
// Ownership: records and changes are immutable and shared. Threads: one at a time.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "wire/membership_generated.h"

namespace vrampool::membership {

using RecordRef = std::shared_ptr<const wire::RecordT>;
using ChangeRef = std::shared_ptr<const wire::ChangeT>;

struct DurableState {
  PoolId pool{};
  NodeId node{};
  MemberNo self{};            // 0: not a member yet
  Term promise{};             // lower terms are refused
  RecordVersion committed{};  // everything up to here is in `records`, `roster`, `view`
  wire::RosterT roster;
  wire::ViewT view;
  std::map<SegmentId, RecordRef> records;
  std::deque<ChangeRef> pending;  // changes behind `committed`, ascending by version
};

// The operations of one Persist. The host applies them in order and in one transaction.
struct SetIdentity {
  PoolId pool;
  NodeId node;
  MemberNo self;
};
struct SetPromise {
  Term promise;
};
struct PutRecord {
  RecordRef record;
};  // key: record->id
struct EraseRecord {
  SegmentId id;
};
struct SetRoster {
  wire::RosterT roster;
};
struct SetView {
  wire::ViewT view;
};
struct SetCommitted {
  RecordVersion version;
};
struct PutChange {
  ChangeRef change;
};  // key: change->version; appended to `pending`
struct EraseChanges {
  RecordVersion through;
};  // erases pending changes of this version and below
struct EraseAllChanges {};
using DurableOp = std::variant<SetIdentity, SetPromise, PutRecord, EraseRecord, SetRoster, SetView, SetCommitted,
                               PutChange, EraseChanges, EraseAllChanges>;

void apply(DurableState&, const DurableOp&);

// What a node stores when a coordinator admitted it (JoinReply, or CommandDone of Admit): enough to find the others.
DurableState joined_state(NodeId node, MemberNo self, const wire::RosterT& roster);

NodeId to_node_id(const wire::Uuid128&);
wire::Uuid128 to_wire(const NodeId&);

}  // namespace vrampool::membership
