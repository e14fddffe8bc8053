// The gate before the bytes of one piece while it is being created. A write is applied once, only with the right token,
// only before the freeze; the freeze waits for bodies in flight. After it no byte changes, so the checksum stays true.
//
// Threads: one at a time (the owner of the piece table). Bounds: `window` finished writes remembered per writer.
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "base/ids.h"

namespace vrampool::membership {

struct WriteTag {
  Sender writer{};
  RequestNo no{};  // unique in the writer's life
  std::uint64_t token = 0;
};

enum class WriteVerdict : std::uint8_t {
  apply,    // take the body, then end()
  already,  // applied before: acknowledge, do not apply
  busy,     // the same write is being applied by another way: say nothing
  denied,   // wrong token
  frozen,   // too late
};

enum class GateState : std::uint8_t { creating, freezing, frozen, closed };

class WriteGate {
 public:
  WriteGate(std::uint64_t token, std::size_t window);
  WriteVerdict begin(const WriteTag&);
  // The body is in place (`applied`) or was lost on the way. Bytes may be stored only between begin() and end().
  void end(const WriteTag&, bool applied);
  // No new write from now on. True: frozen at once; false: bodies are in flight, frozen when the last has ended.
  bool freeze(std::uint64_t token);
  // The piece is reclaimed: nothing is applied any more. True when no body is in flight: the memory may be reused.
  bool close();
  GateState state() const { return state_; }
  std::size_t in_flight() const { return in_flight_.size(); }

 private:
  using Key = std::pair<Sender, RequestNo>;
  struct Writer {
    RequestNo floor{};
    std::set<RequestNo> applied;
  };
  void settle();
  std::uint64_t token_;
  std::size_t window_;
  GateState state_ = GateState::creating;
  bool closing_ = false;
  std::set<Key> in_flight_;
  std::map<Sender, Writer> writers_;
};

}  // namespace vrampool::membership
