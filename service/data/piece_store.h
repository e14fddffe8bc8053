// All pieces of this node: made, found again after a restart, and given back; with the node's books of memory.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "allocator/piece_accounts.h"
#include "platform/shared_object.h"
#include "service/data/piece.h"

namespace vrampool::service::data {

// Threads: any. Blocking: file-system calls on tmpfs; create and adopt are not for loops.
class PieceStore {
 public:
  static Result<PieceStore> open(const DataPlaneOptions&, platform::MachineId boot);

  // Pieces that this boot and incarnation left behind; everything else of them is removed. Caches are left alone.
  void adopt_all();
  // The same piece again (same token and size): the one that is there.
  // Errors: VP_NO_SPACE, VP_EXISTS (other token or size), VP_INVALID.
  Result<PiecePtr> create(SegmentId, const wire::PieceT&, std::uint64_t token);
  PiecePtr find(PieceId) const;
  std::vector<PiecePtr> all() const;
  // The piece that holds [offset, +length) of the segment whole, or null.
  PiecePtr find_range(SegmentId, std::uint64_t offset, std::uint64_t length) const;
  // After every loop let go. Old mappings keep their bytes.
  void remove(PieceId);

  void set_capacity(std::uint64_t bytes);
  struct Books {
    std::uint64_t capacity = 0, booked = 0, pieces = 0;
  };
  Books books() const;

  // For caches, which live in the same directory. Threads: calls are serialised.
  template <class F>
  auto with_objects(F f) {
    std::lock_guard lock(body_->mutex);
    return f(body_->objects);
  }

 private:
  struct Body {
    Body(platform::ObjectStore o, std::uint64_t capacity) : objects(std::move(o)), accounts(capacity) {}
    mutable std::mutex mutex;
    platform::ObjectStore objects;
    allocator::PieceAccounts accounts;
    std::map<PieceId, PiecePtr> pieces;
    Incarnation incarnation{};
    platform::MachineId boot{};
  };
  explicit PieceStore(std::unique_ptr<Body> body) : body_(std::move(body)) {}
  static void adopt_one(Body&, PieceId);
  std::unique_ptr<Body> body_;
};

}  // namespace vrampool::service::data
