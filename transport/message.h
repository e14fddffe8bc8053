// What a rail carries: one message out (borrowed body) and one message in (body where its receiver wanted it).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/limits.h"
#include "wire/data_header.h"

namespace vrampool::transport {

// The small part between header and body: crc table (64 x 4), ticket (32) or a line of text.
inline constexpr std::size_t kSideBytesMax = kPagesPerMessageMax * 4;
static_assert(kSideBytesMax >= wire::kTicketBytes);

// A message to send. `header.payload_bytes` is filled in by the sender; for data and write messages
// `header.length` must be body.size().
// Ownership: `side` is copied; `body` is borrowed until StreamHandler::on_released(tag), whatever happens.
struct Outgoing {
  wire::DataHeader header;
  std::span<const std::byte> side{};
  std::span<const std::byte> body{};
  std::uint64_t tag = 0;  // 0: nobody wants to hear of its release
};

// A message that arrived whole. Nothing but the bounds was checked: the crc table is the receiver's to use.
// Ownership: `side` is valid during the call; `body` is the span that on_header() gave.
struct Incoming {
  wire::DataHeader header;
  std::span<const std::byte> side;  // crc table, ticket or text
  std::span<std::byte> body;
  bool discarded = false;  // no landing was given, or it was diverted: the body is gone
};

// Bytes after the header that are neither crc table nor body: how a payload is cut in two.
inline constexpr std::uint32_t body_bytes_of(const wire::DataHeader& h) {
  const bool has_body = h.kind == wire::DataKind::data || h.kind == wire::DataKind::write;
  return has_body ? h.length : 0;
}

}  // namespace vrampool::transport
