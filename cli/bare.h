// The same work with nothing of ours in it: bare blocking sockets on loopback, for the line beside each figure.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"

namespace vrampool::cli {

struct BareTimes {
  std::vector<std::int64_t> ns;
  double cpu_ns = 0;  // of the asking side's thread
};

// `count` times: 96 bytes out, `bytes` back. Blocking. Threads: starts one and joins it.
Result<BareTimes> bare_echo(std::uint64_t bytes, std::uint64_t count);
// Bytes per second of `bytes` through one connection, with crc32c of every 16 KiB on both sides.
Result<double> bare_stream(std::uint64_t bytes);

}  // namespace vrampool::cli
