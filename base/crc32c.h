// CRC-32C (Castagnoli, RFC 3720 appendix B.4) with the processor's instructions where it has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace vrampool {

// Continues `seed` (0 to start) over `bytes`.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t seed = 0);
// The table version, for comparison in tests.
std::uint32_t crc32c_portable(std::span<const std::byte> bytes, std::uint32_t seed = 0);

}  // namespace vrampool
