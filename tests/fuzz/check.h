// What the fuzz targets share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "base/result.h"

namespace vrampool::fuzz {

// A property broke: stop, so that libFuzzer keeps the input.
inline void must(bool holds) {
  if (!holds) std::abort();
}

// One line of printable ASCII: messages go to terminals and logs.
inline void check_message(const Error& e) {
  must(!e.message.empty() && e.message.size() < 2000);
  for (const char c : e.message) must(c >= ' ' && c <= '~');
}

inline std::span<const std::byte> bytes_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const std::byte*>(data), size};
}

}  // namespace vrampool::fuzz
