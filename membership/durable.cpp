// Applying the small operations to the plain struct.
#include "membership/durable.h"

namespace vrampool::membership {

namespace {
struct Apply {
  DurableState& state;
  void operator()(const SetIdentity& op) {
    state.pool = op.pool;
    state.node = op.node;
    state.self = op.self;
  }
  void operator()(const SetPromise& op) { state.promise = op.promise; }
  void operator()(const PutRecord& op) { state.records[op.record->id] = op.record; }
  void operator()(const EraseRecord& op) { state.records.erase(op.id); }
  void operator()(const SetRoster& op) { state.roster = op.roster; }
  void operator()(const SetView& op) { state.view = op.view; }
  void operator()(const SetCommitted& op) { state.committed = op.version; }
  void operator()(const PutChange& op) { state.pending.push_back(op.change); }
  void operator()(const EraseChanges& op) {
    while (!state.pending.empty() && state.pending.front()->version <= op.through) state.pending.pop_front();
  }
  void operator()(const EraseAllChanges&) { state.pending.clear(); }
};
}  // namespace

void apply(DurableState& state, const DurableOp& op) { std::visit(Apply{state}, op); }

DurableState joined_state(NodeId node, MemberNo self, const wire::RosterT& roster) {
  DurableState state;
  state.pool = {roster.pool.hi(), roster.pool.lo()};
  state.node = node;
  state.self = self;
  state.promise = roster.version.term;  // who admitted it led this term
  state.roster = roster;
  return state;
}

NodeId to_node_id(const wire::Uuid128& id) { return {id.hi(), id.lo()}; }
wire::Uuid128 to_wire(const NodeId& id) { return {id.hi, id.lo}; }

}  // namespace vrampool::membership
