// The packed header before every data-plane message, between peers (TCP, TLS, later verbs) and between a
// client and its daemon (unix socket). 96 bytes, little endian, self-checked.
//
// Threads: pure functions. Errors: decode() refuses anything whose magic, version, checksum or bounds do
// not hold; nothing it accepts names more than kPagesPerMessageMax pages.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ids.h"
#include "base/limits.h"
#include "base/result.h"

namespace vrampool::wire {

enum class DataKind : std::uint8_t {
  hello = 1,     // first message of a connection; payload: 32-byte ticket
  hello_ok = 2,  // the ticket was good; the connection is open
  read = 3,      // asks [offset, offset + length) of a segment; peers ask whole pages only
  data = 4,      // answers `read`: crc table (one u32 per page; none between a client and its daemon) then bytes
  write = 5,     // peers: whole pages into a segment that is being created: crc table, then pages
  write_ok = 6,  // answers `write`
  failure = 7,   // answers anything: `status`, payload is one line of text
  ping = 8,
  pong = 9,
};

enum DataFlags : std::uint8_t {
  kDataEcho = 1,  // benchmarks: answer with `length` bytes of a fixed page, looking nothing up
  kDataBulk = 2,  // hello: a connection for bulk, which a mover serves; without it the engine does
};

inline constexpr std::size_t kDataHeaderBytes = 96;
inline constexpr std::uint8_t kDataVersion = 1;
inline constexpr std::size_t kTicketBytes = 32;
using Ticket = std::array<std::byte, kTicketBytes>;

struct DataHeader {
  DataKind kind = DataKind::ping;
  std::uint8_t flags = 0;
  std::uint8_t ttl = 1;      // relays left
  std::uint16_t status = 0;  // vp_status of an answer
  Sender source{};
  MemberNo destination{};
  Epoch epoch{};        // the sender's view
  RequestNo request{};  // echoed by the answer
  SegmentId segment{};
  std::uint32_t layout_version = 0;
  std::uint64_t offset = 0;         // bytes into the segment
  std::uint32_t length = 0;         // bytes asked for, or bytes of pages that follow the crc table
  std::uint32_t payload_bytes = 0;  // everything after this header
  std::uint64_t token = 0;          // create token of a write
};

using DataHeaderBytes = std::array<std::byte, kDataHeaderBytes>;

DataHeaderBytes encode(const DataHeader&);
Result<DataHeader> decode_data_header(std::span<const std::byte, kDataHeaderBytes>);

inline constexpr std::uint32_t pages_of(std::uint32_t length) {
  return static_cast<std::uint32_t>((length + kPageBytes - 1) / kPageBytes);
}
inline constexpr std::uint32_t crc_table_bytes(std::uint32_t length) { return pages_of(length) * 4; }
inline constexpr std::uint32_t kDataPayloadBytesMax =
    static_cast<std::uint32_t>(kPagesPerMessageMax * (kPageBytes + 4));

}  // namespace vrampool::wire
