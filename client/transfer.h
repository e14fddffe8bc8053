// One read or write as its caller sees it; the channel cuts it into requests.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "vrampool/vrampool.h"

namespace vrampool::client {

// Threads: the fields below `guarded` belong to the channel's lock.
struct Transfer {
  Duration patience{};  // without any progress
  bool asynchronous = false;
  vp_completion completion = nullptr;
  void* user = nullptr;
  // ---- guarded ----
  Instant deadline{};       // moves on with every answer
  std::uint32_t left = 0;   // requests without an answer
  bool submitting = false;  // more requests will follow
  bool done = false;
  vp_status status = VP_OK;
  std::string message;
};

// What a transfer moves: bytes [offset, +bytes) of a segment, one of `into` and `from` is set.
struct Move {
  SegmentId segment{};
  std::uint32_t layout_version = 0;
  std::uint64_t token = 0;  // writes: the create token
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::byte* into = nullptr;
  const std::byte* from = nullptr;
};

}  // namespace vrampool::client
