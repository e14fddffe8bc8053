// Rail: one path between two nodes, whatever it is made of. The engine sees capabilities as data and asks the same
// things of every kind: send a message, read pages, write pages; how much may leave now; is it well.
//
// Threads: one, the owner's loop. Blocking: never. Ownership: bodies are borrowed until released(); landings until
// the message came, divert(), or down.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/ids.h"
#include "base/result.h"
#include "transport/message.h"

namespace vrampool::transport {

enum class RailHealth : std::uint8_t {
  rising,  // being set up
  up,
  sick,  // works in part: some of its connections are gone
  down,  // for good: make a new one
};

struct RailTraits {
  std::string_view kind;  // "tcp", "tls", "fake", later "rc", "uc"
  bool encrypted = false;
  bool one_sided_reads = false;  // pages can be read without the peer's processor
  bool lands_in_window = false;  // bodies come to a window of the rail's and are copied out
  std::uint32_t pages_per_message_max = kPagesPerMessageMax;
};

class RailHandler {
 public:
  virtual ~RailHandler() = default;
  virtual std::span<std::byte> landing(const wire::DataHeader&) = 0;
  virtual void message(const Incoming&) = 0;
  virtual void released(std::uint64_t tag, bool sent) = 0;
  virtual void health_changed(RailHealth, const Error& why) = 0;
};

class Rail {
 public:
  virtual ~Rail() = default;
  virtual const RailTraits& traits() const = 0;
  virtual RailHealth health() const = 0;
  // Messages that may be given now. 0: wait for released() or message().
  virtual std::uint32_t credits() const = 0;
  // Bytes given but not gone, and bytes asked for but not come: rails are filled by least of this.
  virtual std::uint64_t outstanding_bytes() const = 0;

  // False: no credit or not up; nothing was taken.
  virtual bool send(const Outgoing&) = 0;
  // Asks `header.length` bytes at `header.offset`; the answer is a message of kind data with the same request.
  virtual bool read_pages(wire::DataHeader header) = 0;
  // Whole pages with their crc table; answered by write_ok or failure.
  virtual bool write_pages(wire::DataHeader header, std::span<const std::byte> crc_table,
                           std::span<const std::byte> pages, std::uint64_t tag) = 0;
  // See DataStream::divert().
  virtual void divert(RequestNo) = 0;
};

}  // namespace vrampool::transport
