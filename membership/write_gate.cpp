// Once per (life, number), never after the freeze.
#include "membership/write_gate.h"

#include "base/assert.h"
#include "base/mark.h"

namespace vrampool::membership {

WriteGate::WriteGate(std::uint64_t token, std::size_t window) : token_(token), window_(window) {
  VP_ASSERT(window > 0);
}

WriteVerdict WriteGate::begin(const WriteTag& tag) {
  if (tag.token != token_) return WriteVerdict::denied;
  Writer& writer = writers_[tag.writer];
  // A writer has at most `window` writes open, so what lies below the floor has ended for it.
  if (!VP_BUG(30) && (tag.no <= writer.floor || writer.applied.contains(tag.no))) {
    VP_MARK(write_repeated);
    return WriteVerdict::already;
  }
  if (state_ != GateState::creating && !VP_BUG(31)) {
    VP_MARK(write_after_freeze);
    return WriteVerdict::frozen;
  }
  if (!in_flight_.insert({tag.writer, tag.no}).second) {
    VP_MARK(write_twice_in_flight);
    return WriteVerdict::busy;
  }
  return WriteVerdict::apply;
}

void WriteGate::end(const WriteTag& tag, bool applied) {
  if (in_flight_.erase({tag.writer, tag.no}) == 0) return;
  if (applied) {
    Writer& writer = writers_[tag.writer];
    writer.applied.insert(tag.no);
    while (writer.applied.size() > window_) {
      writer.floor = *writer.applied.begin();
      writer.applied.erase(writer.applied.begin());
    }
  }
  settle();
}

bool WriteGate::freeze(std::uint64_t token) {
  if (token != token_) return false;
  if (state_ == GateState::creating) state_ = GateState::freezing;
  settle();
  return state_ == GateState::frozen;
}

bool WriteGate::close() {
  closing_ = true;
  if (state_ == GateState::creating) state_ = GateState::freezing;
  settle();
  return state_ == GateState::closed;
}

void WriteGate::settle() {
  if (state_ == GateState::creating) return;
  if (!in_flight_.empty() && !VP_BUG(32)) {
    VP_MARK(freeze_waits_for_body);
    return;
  }
  state_ = closing_ ? GateState::closed : GateState::frozen;
}

}  // namespace vrampool::membership
