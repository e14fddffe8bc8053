// The packed header: every field survives, every damaged bit is refused.
#include "wire/data_header.h"

#include <doctest/doctest.h>

using namespace vrampool;
using namespace vrampool::wire;

namespace {
DataHeader sample() {
  DataHeader h;
  h.kind = DataKind::read;
  h.flags = kDataEcho;
  h.ttl = 3;
  h.status = 11;
  h.source = {MemberNo{7}, Life{9}};
  h.destination = MemberNo{8};
  h.epoch = {{4, MemberNo{2}}, 77};
  h.request = RequestNo{0x1122334455667788};
  h.segment = {MemberNo{1}, Life{2}, 3};
  h.layout_version = 6;
  h.offset = 1ull << 40;
  h.length = kPageBytes;
  h.payload_bytes = 4 + kPageBytes;
  h.token = ~0ull;
  return h;
}
}  // namespace

TEST_CASE("a data header survives the wire") {
  const auto h = sample();
  const auto back = decode_data_header(encode(h));
  REQUIRE(back.ok());
  CHECK(back->kind == h.kind);
  CHECK(back->flags == h.flags);
  CHECK(back->ttl == h.ttl);
  CHECK(back->status == h.status);
  CHECK(back->source == h.source);
  CHECK(back->destination == h.destination);
  CHECK(back->epoch == h.epoch);
  CHECK(back->request == h.request);
  CHECK(back->segment == h.segment);
  CHECK(back->layout_version == h.layout_version);
  CHECK(back->offset == h.offset);
  CHECK(back->length == h.length);
  CHECK(back->payload_bytes == h.payload_bytes);
  CHECK(back->token == h.token);
}

TEST_CASE("every flipped bit of a data header is noticed") {
  const auto good = encode(sample());
  for (std::size_t bit = 0; bit < kDataHeaderBytes * 8; ++bit) {
    auto bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    CHECK_FALSE(decode_data_header(bad).ok());
  }
}

TEST_CASE("sizes beyond the limits are refused even with a good checksum") {
  auto h = sample();
  h.payload_bytes = kDataPayloadBytesMax + 1;
  CHECK_FALSE(decode_data_header(encode(h)).ok());
  h = sample();
  h.offset = kPoolSlotBytes;
  CHECK_FALSE(decode_data_header(encode(h)).ok());
}
