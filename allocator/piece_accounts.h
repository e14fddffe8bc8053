// One node's books: which pieces its donation holds, what is promised, what is left.
#pragma once

#include <cstdint>
#include <map>

#include "base/ids.h"
#include "base/result.h"

namespace vrampool::allocator {

// Reserve at create, use when the object stands, release when it is unlinked. A repeated reserve of the same piece and
// size succeeds and changes nothing, so that a retried create finds its own reservation.
// Threads: one owner. Errors: a failed call changes nothing.
class PieceAccounts {
 public:
  explicit PieceAccounts(std::uint64_t capacity_bytes) : capacity_(capacity_bytes) {}

  // Errors: VP_NO_SPACE past the capacity; VP_EXISTS with another size.
  Status reserve(PieceId piece, std::uint64_t bytes);
  // Reserved becomes used. Errors: VP_NOT_FOUND. A piece already used stays used.
  Status use(PieceId piece);
  // A piece found at start-up is booked even past the capacity: its bytes are there already.
  // Errors: VP_EXISTS with another size.
  Status adopt(PieceId piece, std::uint64_t bytes);
  // Bytes given back; 0 for a piece nobody booked.
  std::uint64_t release(PieceId piece);
  // The donation changes, also below what is booked: then nothing new is taken until enough was released.
  void set_capacity(std::uint64_t capacity_bytes) { capacity_ = capacity_bytes; }

  std::uint64_t capacity_bytes() const { return capacity_; }
  std::uint64_t reserved_bytes() const { return reserved_; }
  std::uint64_t used_bytes() const { return used_; }
  std::uint64_t free_bytes() const;
  // By how much the books are above the capacity.
  std::uint64_t excess_bytes() const;
  std::uint64_t largest_piece_bytes() const;
  std::size_t pieces() const { return pieces_.size(); }

 private:
  struct Entry {
    std::uint64_t bytes = 0;
    bool used = false;
  };
  std::map<PieceId, Entry> pieces_;
  std::uint64_t capacity_ = 0;
  std::uint64_t reserved_ = 0;
  std::uint64_t used_ = 0;
};

}  // namespace vrampool::allocator
