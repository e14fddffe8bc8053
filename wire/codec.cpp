#include "wire/codec.h"

#include <cstring>

namespace vrampool::wire {

std::vector<std::byte> frame(std::span<const std::byte> body) {
  std::vector<std::byte> out(body.size() + 4);
  const auto n = static_cast<std::uint32_t>(body.size());
  std::memcpy(out.data(), &n, 4);
  if (n != 0) std::memcpy(out.data() + 4, body.data(), n);
  return out;
}

Result<std::uint32_t> frame_length(std::span<const std::byte, 4> prefix, std::size_t max) {
  std::uint32_t n;
  std::memcpy(&n, prefix.data(), 4);
  if (n > max) return error(VP_CORRUPT, "a frame of {} bytes is larger than the {} allowed", n, max);
  return n;
}

}  // namespace vrampool::wire
