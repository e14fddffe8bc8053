// The crc table of a block: one CRC-32C per page, as data messages carry it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

#include "base/crc32c.h"
#include "base/limits.h"

namespace vrampool::bench {

// REQUIRES: `table` holds four bytes per page of `block`.
inline void take_crcs(std::span<const std::byte> block, std::span<std::byte> table) {
  for (std::size_t at = 0, i = 0; at < block.size(); at += kPageBytes, ++i) {
    const std::uint32_t crc = crc32c(block.subspan(at, std::min(kPageBytes, block.size() - at)));
    std::memcpy(table.data() + 4 * i, &crc, 4);
  }
}

}  // namespace vrampool::bench
