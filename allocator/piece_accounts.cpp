#include "allocator/piece_accounts.h"

#include <algorithm>

#include "base/text.h"

namespace vrampool::allocator {

Status PieceAccounts::reserve(PieceId piece, std::uint64_t bytes) {
  if (const auto at = pieces_.find(piece); at != pieces_.end()) {
    if (at->second.bytes == bytes) return {};
    return error(VP_EXISTS, "piece {} is booked with {} bytes, not {}", to_text(piece), at->second.bytes, bytes);
  }
  if (bytes > free_bytes())
    return error(VP_NO_SPACE, "{} are free here and {} are needed; this node gives {} and {} are taken",
                 format_bytes(free_bytes()), format_bytes(bytes), format_bytes(capacity_),
                 format_bytes(used_ + reserved_));
  pieces_.emplace(piece, Entry{bytes, false});
  reserved_ += bytes;
  return {};
}

Status PieceAccounts::use(PieceId piece) {
  const auto at = pieces_.find(piece);
  if (at == pieces_.end()) return error(VP_NOT_FOUND, "piece {} was never reserved here", to_text(piece));
  if (at->second.used) return {};
  at->second.used = true;
  reserved_ -= at->second.bytes;
  used_ += at->second.bytes;
  return {};
}

Status PieceAccounts::adopt(PieceId piece, std::uint64_t bytes) {
  const auto [at, added] = pieces_.emplace(piece, Entry{bytes, true});
  if (added) {
    used_ += bytes;
    return {};
  }
  if (at->second.bytes != bytes)
    return error(VP_EXISTS, "piece {} is booked with {} bytes, not {}", to_text(piece), at->second.bytes, bytes);
  return use(piece);
}

std::uint64_t PieceAccounts::release(PieceId piece) {
  const auto at = pieces_.find(piece);
  if (at == pieces_.end()) return 0;
  const auto [bytes, used] = at->second;
  (used ? used_ : reserved_) -= bytes;
  pieces_.erase(at);
  return bytes;
}

std::uint64_t PieceAccounts::free_bytes() const {
  const std::uint64_t taken = used_ + reserved_;
  return taken < capacity_ ? capacity_ - taken : 0;
}

std::uint64_t PieceAccounts::excess_bytes() const {
  const std::uint64_t taken = used_ + reserved_;
  return taken > capacity_ ? taken - capacity_ : 0;
}

std::uint64_t PieceAccounts::largest_piece_bytes() const {
  std::uint64_t largest = 0;
  for (const auto& [id, entry] : pieces_) largest = std::max(largest, entry.bytes);
  return largest;
}

}  // namespace vrampool::allocator
