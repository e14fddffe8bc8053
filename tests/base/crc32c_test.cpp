// CRC-32C against the published vectors, and the fast version against the plain one.
#include "base/crc32c.h"

#include <doctest/doctest.h>

#include <cstring>
#include <vector>

using namespace vrampool;

TEST_CASE("crc32c of the RFC 3720 vectors") {
  std::vector<std::byte> zeros(32), ones(32, std::byte{0xff}), up(32);
  for (std::size_t i = 0; i < 32; ++i) up[i] = static_cast<std::byte>(i);
  CHECK(crc32c(zeros) == 0x8a9136aau);
  CHECK(crc32c(ones) == 0x62a8ab43u);
  CHECK(crc32c(up) == 0x46dd794eu);
}

TEST_CASE("crc32c with instructions equals the table version at every length and split") {
  std::vector<std::byte> bytes(16 * 1024 + 37);
  std::uint32_t x = 1;
  for (auto& b : bytes) b = static_cast<std::byte>((x = x * 1664525 + 1013904223) >> 24);
  for (const std::size_t n : {0u, 1u, 7u, 8u, 9u, 63u, 4079u, 4080u, 4081u, 8160u, 16384u, 16421u}) {
    const std::span<const std::byte> all(bytes.data(), n);
    const auto want = crc32c_portable(all);
    CHECK(crc32c(all) == want);
    const auto cut = n / 3;
    CHECK(crc32c(all.subspan(cut), crc32c(all.first(cut))) == want);
  }
}
