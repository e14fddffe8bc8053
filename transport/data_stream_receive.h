// The receiving half of a DataStream's state: one message on its way in. Internal to transport/data_stream*.cpp.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <vector>

#include "transport/data_stream.h"

namespace vrampool::transport {

struct DataStream::Receive {
  struct Guess {
    RequestNo request{};
    std::span<std::byte> landing;
  };

  // Header bytes of the message that comes next (while a body is received: the one after it).
  wire::DataHeaderBytes head{};
  std::size_t head_have = 0;
  // The message whose header is known.
  bool have_header = false;
  wire::DataHeader header{};
  std::array<std::byte, kSideBytesMax> side{};
  std::size_t side_bytes = 0, side_have = 0;
  std::span<std::byte> body;  // where it lands; empty while discarding
  std::size_t body_bytes = 0, body_have = 0;
  bool discarding = false;
  bool over_read = true;  // small messages: read several at once into `spill`
  std::optional<Guess> guess;
  bool guess_in_flight = false;  // this read scattered over the guess

  // Bytes that were read but not yet used; they are consumed before the socket is asked again.
  std::vector<std::byte> spill;
  std::size_t spill_begin = 0, spill_end = 0;
  std::vector<std::byte> scratch;  // thrown-away bodies

  bool spilled() const { return spill_begin != spill_end; }
  std::size_t wanted() const { return side_bytes - side_have + body_bytes - body_have; }
};

// A list of places for one scattered read.
struct ReadPlan {
  std::array<iovec, 4> places{};
  int count = 0;
  std::size_t total = 0;
  void add(std::span<std::byte> place) {
    if (place.empty()) return;
    places[static_cast<std::size_t>(count++)] = {place.data(), place.size()};
    total += place.size();
  }
};

inline constexpr std::size_t kSpillBytes = 8 * 1024;      // small messages read at once
inline constexpr std::size_t kGuessBytesMax = 64 * 1024;  // a wrong guess is copied away: keep it small
inline constexpr std::size_t kScratchBytes = 64 * 1024;
inline constexpr std::size_t kFairBytes = 4u << 20;  // one on_readable() takes about this much
inline constexpr std::size_t kFairReads = 64;

}  // namespace vrampool::transport
