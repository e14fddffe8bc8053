// The SHA-256 that a record keeps per piece, and that a reload or a verify checks.
//
// A piece with fewer than kSparseZeroPages pages of zeros: SHA-256 of its bytes. A piece with more: SHA-256 over
// {page index (u64, little endian), page bytes} of every page that is not all zero, then the piece's size (u64), so
// that hashing a huge sparse piece costs what it holds. Which of the two it is depends on the bytes alone, never on
// which pages happen to be present.
#pragma once

#include <cstdint>

#include "service/data_plane.h"

namespace vrampool::service::data {

class Piece;

inline constexpr std::uint64_t kSparseZeroPages = (1ull << 30) / kPageBytes;

// REQUIRES: frozen or sealed. Threads: any; not on a loop (about 1 s per GiB).
Sha256 piece_digest(const Piece&);

}  // namespace vrampool::service::data
