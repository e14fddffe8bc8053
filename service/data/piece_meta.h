// The metadata object that stands beside every piece and every cache object: who it is, what state it is in, which
// pages are valid, and their crc32c. No client ever maps it.
//
// Layout, little endian, sparse (only touched parts cost memory):
//   [0, 4096)         slot A of the header     [4096, 8192)  slot B
//   [16 KiB, ...)     valid bitmap, 64-bit words
//   then, on a page border: crc32c per page, u32
// A header is written to the slot that is not current, with a higher sequence number and a checksum of itself; a torn
// write leaves the other slot. Bits are set after the page's bytes and crc stand, and cleared before they go.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/ids.h"
#include "base/limits.h"
#include "base/result.h"
#include "platform/machine.h"

namespace vrampool::service::data {

inline constexpr std::uint32_t kMetaFormat = 1;

enum class MetaKind : std::uint8_t { piece = 1, cache = 2 };

struct MetaHeader {
  MetaKind kind = MetaKind::piece;
  std::uint8_t state = 0;         // piece: PieceState; cache: 0
  bool granted_resident = false;  // cache: a client may map every page of it directly; never punch it
  SegmentId segment{};
  std::uint32_t ordinal = 0;
  std::uint8_t copy = 0;
  std::uint64_t segment_offset = 0;
  std::uint64_t bytes = 0;  // of the data object
  std::uint64_t token = 0;
  Incarnation incarnation{};
  platform::MachineId boot{};
};

// A view over mapped memory. Threads: bits and crcs any (one writer per page, ordered by the caller); headers one.
// Ownership: borrows the mapping.
class PieceMeta {
 public:
  static std::uint64_t object_bytes(std::uint64_t data_bytes);
  // Where the crc table starts; all before it is the header and the bitmap.
  static std::uint64_t crc_offset(std::uint64_t pages);

  PieceMeta() = default;
  // A fresh object, all zero. REQUIRES: memory.size() >= object_bytes(header.bytes).
  static PieceMeta format(std::span<std::byte> memory, const MetaHeader& header);
  // VP_CORRUPT: no slot holds; VP_UNSUPPORTED: written by a newer version.
  static Result<PieceMeta> open(std::span<std::byte> memory);

  const MetaHeader& header() const { return header_; }
  void store(const MetaHeader& header);

  std::uint64_t pages() const { return pages_; }
  bool valid(std::uint64_t page) const { return (word(page).load(std::memory_order_acquire) >> (page % 64) & 1) != 0; }
  void set_valid(std::uint64_t page) { word(page).fetch_or(1ull << (page % 64), std::memory_order_release); }
  void clear_valid(std::uint64_t page) { word(page).fetch_and(~(1ull << (page % 64)), std::memory_order_acq_rel); }
  std::uint32_t crc(std::uint64_t page) const { return crcs_[page]; }
  void set_crc(std::uint64_t page, std::uint32_t value) { crcs_[page] = value; }
  std::span<const std::uint32_t> crcs(std::uint64_t page, std::uint64_t count) const { return {crcs_ + page, count}; }

  std::uint64_t count_valid() const;
  // End of the run of pages from `page` that are all valid, or all not; at most `end`.
  std::uint64_t run_end(std::uint64_t page, std::uint64_t end) const;

 private:
  void lay_out(std::span<std::byte> memory, std::uint64_t data_bytes);
  std::atomic<std::uint64_t>& word(std::uint64_t page) const { return bits_[page / 64]; }

  std::span<std::byte> memory_{};
  std::atomic<std::uint64_t>* bits_ = nullptr;
  std::uint32_t* crcs_ = nullptr;
  std::uint64_t pages_ = 0;
  std::uint64_t sequence_ = 0;
  MetaHeader header_{};
};

// The crc32c of a page of zeros, and such a page. Threads: any.
std::uint32_t zero_page_crc();
std::span<const std::byte, kPageBytes> zero_page();
// What a client sees in place of bytes that are lost: NaN in every float format.
std::span<const std::byte, kPageBytes> poison_page();

}  // namespace vrampool::service::data
