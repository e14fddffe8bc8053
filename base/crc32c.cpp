#include "base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#endif

namespace vrampool {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78;  // reflected

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> t{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t c = i;
    for (int k = 0; k < 8; ++k) c = (c & 1) != 0 ? (c >> 1) ^ kPolynomial : c >> 1;
    t[i] = c;
  }
  return t;
}
constexpr auto kTable = make_table();

// x^(8n) mod P for the three-lane version: the CRC of a lane moved over `n` zero bytes, as a table of 4 x 256.
using ShiftTable = std::array<std::array<std::uint32_t, 256>, 4>;
constexpr std::uint32_t shift_one(std::uint32_t c, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) c = kTable[c & 0xff] ^ (c >> 8);
  return c;
}
ShiftTable make_shift(std::size_t bytes) {
  std::array<std::uint32_t, 32> basis{};
  for (std::size_t bit = 0; bit < 32; ++bit) basis[bit] = shift_one(1u << bit, bytes);
  ShiftTable t{};
  for (std::size_t lane = 0; lane < 4; ++lane)
    for (std::uint32_t v = 0; v < 256; ++v)
      for (std::size_t bit = 0; bit < 8; ++bit)
        if ((v >> bit & 1) != 0) t[lane][v] ^= basis[lane * 8 + bit];
  return t;
}
std::uint32_t shift(const ShiftTable& t, std::uint32_t c) {
  return t[0][c & 0xff] ^ t[1][c >> 8 & 0xff] ^ t[2][c >> 16 & 0xff] ^ t[3][c >> 24];
}

std::uint64_t load64(const std::byte* p) {
  std::uint64_t v;
  std::memcpy(&v, p, 8);
  return v;
}

#if defined(__x86_64__)
#define VP_CRC_TARGET __attribute__((target("sse4.2")))
VP_CRC_TARGET inline std::uint64_t step8(std::uint64_t c, std::uint64_t v) { return _mm_crc32_u64(c, v); }
VP_CRC_TARGET inline std::uint32_t step1(std::uint32_t c, std::byte v) {
  return _mm_crc32_u8(c, static_cast<unsigned char>(v));
}
bool has_instruction() {
  static const bool yes = __builtin_cpu_supports("sse4.2") != 0;
  return yes;
}
#elif defined(__aarch64__)
#define VP_CRC_TARGET __attribute__((target("crc")))
VP_CRC_TARGET inline std::uint64_t step8(std::uint64_t c, std::uint64_t v) {
  return __crc32cd(static_cast<std::uint32_t>(c), v);
}
VP_CRC_TARGET inline std::uint32_t step1(std::uint32_t c, std::byte v) {
  return __crc32cb(c, static_cast<unsigned char>(v));
}
bool has_instruction() { return true; }  // every 64-bit ARM machine that we run on (ARMv8.1 and up)
#else
#define VP_CRC_TARGET
bool has_instruction() { return false; }
#endif

#if defined(__x86_64__) || defined(__aarch64__)
// The instruction has a latency of three cycles and a throughput of one: three lanes keep it busy.
constexpr std::size_t kLaneBytes = 1360;  // 3 lanes, 12 rounds to a page of 16 KiB with little left over
VP_CRC_TARGET std::uint32_t crc_hardware(const std::byte* p, std::size_t n, std::uint32_t seed) {
  static const ShiftTable kShift1 = make_shift(kLaneBytes);
  static const ShiftTable kShift2 = make_shift(2 * kLaneBytes);
  std::uint64_t c = ~seed;
  while (n >= 3 * kLaneBytes) {
    std::uint64_t a = c, b = 0, d = 0;
    for (std::size_t i = 0; i < kLaneBytes; i += 8) {
      a = step8(a, load64(p + i));
      b = step8(b, load64(p + kLaneBytes + i));
      d = step8(d, load64(p + 2 * kLaneBytes + i));
    }
    c = shift(kShift2, static_cast<std::uint32_t>(a)) ^ shift(kShift1, static_cast<std::uint32_t>(b)) ^
        static_cast<std::uint32_t>(d);
    p += 3 * kLaneBytes;
    n -= 3 * kLaneBytes;
  }
  for (; n >= 8; p += 8, n -= 8) c = step8(c, load64(p));
  auto r = static_cast<std::uint32_t>(c);
  for (; n > 0; ++p, --n) r = step1(r, *p);
  return ~r;
}
#endif

}  // namespace

std::uint32_t crc32c_portable(std::span<const std::byte> bytes, std::uint32_t seed) {
  std::uint32_t c = ~seed;
  for (const std::byte b : bytes) c = kTable[(c ^ static_cast<std::uint32_t>(b)) & 0xff] ^ (c >> 8);
  return ~c;
}

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t seed) {
#if defined(__x86_64__) || defined(__aarch64__)
  if (has_instruction()) return crc_hardware(bytes.data(), bytes.size(), seed);
#endif
  return crc32c_portable(bytes, seed);
}

}  // namespace vrampool
