// Sizes, names and ids as text.
#include "base/text.h"

#include <doctest/doctest.h>

#include "base/ids.h"

using namespace vrampool;

TEST_CASE("sizes are read with binary and decimal units") {
  CHECK(*parse_bytes("4096") == 4096);
  CHECK(*parse_bytes("64GiB") == 64ull << 30);
  CHECK(*parse_bytes("64 G") == 64ull << 30);
  CHECK(*parse_bytes("1.5TB") == 1'500'000'000'000ull);
  for (const char* bad : {"", "x", "-1", "1Q", "1e30", "nan", "12GiBB", "inf"}) CHECK_FALSE(parse_bytes(bad).ok());
}

TEST_CASE("sizes are written with one decimal at most") {
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(16384) == "16 KiB");
  CHECK(format_bytes(1536ull << 30) == "1.5 TiB");
}

TEST_CASE("names keep to what every file system can show") {
  CHECK(check_name("models/gemma.gguf").ok());
  for (const char* bad : {"", "..", "a/../b", "/a", "a/", "a//b", "a b", "\xc3\xa4", "a\\b"})
    CHECK_FALSE(check_name(bad).ok());
  CHECK_FALSE(check_name(std::string(256, 'a')).ok());
}

TEST_CASE("ids survive the way to text and back") {
  const SegmentId id{MemberNo{3}, Life{12}, 7};
  CHECK(to_text(id) == "3.12.7");
  CHECK(parse_segment_id("3.12.7") == id);
  for (const char* bad : {"", "3", "3.12", "3.12.7.1", "70000.1.1", "a.b.c", "3.12.7 "})
    CHECK_FALSE(parse_segment_id(bad));
  CHECK(parse_hex128(to_hex(1, 2)) == std::array<std::uint64_t, 2>{1, 2});
  CHECK_FALSE(parse_hex128("12"));
}
