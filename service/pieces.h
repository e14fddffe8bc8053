// The pieces that live on this node, as the control plane sees them: what hosts are asked by creators, what becomes of
// them when records change, and what to do with those that a restart finds.
#pragma once

#include <map>
#include <set>

#include "allocator/piece_accounts.h"
#include "membership/reconcile.h"
#include "service/data_plane.h"
#include "service/members.h"

namespace vrampool::service {

// Threads: control thread.
class Pieces {
 public:
  Pieces(Loop& loop, Members& members, DataPlane& data, Sender self, Incarnation incarnation,
         std::uint64_t capacity_bytes);
  ~Pieces();

  // Answers to a creator. `asker` may be this node itself.
  Task<Body> create(Sender asker, wire::PieceCreateT ask);
  Task<Body> freeze(wire::PieceFreezeT ask);
  Task<Body> seal(wire::PieceSealT ask);
  Task<Body> free(wire::PieceFreeT ask);
  Body space() const;

  void record_applied(const membership::RecordRef&);
  void set_capacity(std::uint64_t bytes);
  const allocator::PieceAccounts& accounts() const { return accounts_; }
  // "creating", "frozen", "sealed", or "" when it is not here.
  std::string state_of(PieceId id) const;
  std::size_t orphans() const { return orphans_; }
  // Bytes that sealed records place here and that are not here, as of a few seconds ago.
  std::uint64_t missing_bytes() const { return missing_bytes_; }

 private:
  struct Entry {
    std::uint64_t bytes = 0;
    PieceState state = PieceState::creating;
    Incarnation incarnation{};
    Instant found{};
    bool going = false;  // a free is under way
  };
  void tick();
  void judge_found();
  void drop_unwanted(const Entry& entry, PieceId id);
  void say_freed();
  void count_missing();
  Task<> free_one(PieceId id);
  Task<> seal_one(PieceId id);
  Task<> tell_freed(SegmentId id);
  Task<Status> await_free(PieceId id);
  Task<Status> await_seal(PieceId id);
  std::vector<PieceId> of_segment(SegmentId id) const;

  Loop& loop_;
  Members& members_;
  DataPlane& data_;
  Sender self_;
  Incarnation incarnation_;
  allocator::PieceAccounts accounts_;
  std::map<PieceId, Entry> pieces_;
  std::set<SegmentId> telling_;  // a Freed command is under way
  std::size_t orphans_ = 0;
  std::uint64_t missing_bytes_ = 0;
  unsigned ticks_ = 0;
  std::uint64_t timer_ = 0;
};

}  // namespace vrampool::service
