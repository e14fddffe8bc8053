// Creating: written in any pieces, sealed once, dropped when let go.
#include <random>

#include "fixture.h"

using namespace vrampool;
using namespace vrampool::client;
using namespace vrampool::client::testing;

namespace {

std::vector<std::byte> expected(std::uint64_t bytes) {
  std::vector<std::byte> b(bytes);
  for (std::uint64_t i = 0; i < bytes; ++i) b[i] = FakePool::byte_at(i);
  return b;
}

struct Creating : Fixture {
  vp_segment segment{};
  void create(const char* name, std::uint64_t bytes) {
    auto o = VP_INIT(vp_create_options);
    o.bytes = bytes;
    REQUIRE(vp_create(session, name, &o, &segment) == VP_OK);
  }
};

}  // namespace

TEST_CASE_FIXTURE(Creating, "writes of odd sizes in any order make the whole") {
  connect();
  const auto data = expected(600000);
  create("new", data.size());
  std::vector<std::pair<std::uint64_t, std::uint64_t>> parts;
  std::minstd_rand random(7);
  for (std::uint64_t at = 0; at < data.size();) {
    const std::uint64_t n = std::min<std::uint64_t>(1 + random() % 50000, data.size() - at);
    parts.emplace_back(at, n);
    at += n;
  }
  std::shuffle(parts.begin(), parts.end(), random);
  for (const auto& [at, n] : parts) REQUIRE(vp_write(segment, at, data.data() + at, n) == VP_OK);
  REQUIRE(vp_seal(segment) == VP_OK);
  CHECK(pool.seals == 1);
  std::vector<std::byte> back(data.size());
  REQUIRE(vp_read(open("new"), 0, back.data(), back.size()) == VP_OK);
  CHECK(back == data);
}

TEST_CASE_FIXTURE(Creating, "asynchronous writes take whole pages") {
  connect();
  const auto data = expected(20 << 20);
  create("new", data.size());
  std::vector<vp_token> tokens(5);
  const std::uint64_t each = data.size() / 5;
  for (std::size_t i = 0; i < 5; ++i) {
    REQUIRE(vp_write_async(segment, i * each, data.data() + i * each, each, nullptr, nullptr, &tokens[i]) == VP_OK);
  }
  for (const vp_token t : tokens) CHECK(vp_wait(t, -1) == VP_OK);
  CHECK(vp_write_async(segment, 1, data.data(), 16384, nullptr, nullptr, &tokens[0]) == VP_INVALID);
  REQUIRE(vp_seal(segment) == VP_OK);
  CHECK(pool.find("new")->bytes == data);
}

TEST_CASE_FIXTURE(Creating, "what was never written reads as zero") {
  connect();
  create("new", 40000);
  const char x = 'x';
  REQUIRE(vp_write(segment, 20000, &x, 1) == VP_OK);
  REQUIRE(vp_seal(segment) == VP_OK);
  std::vector<char> b(40000, 'y');
  REQUIRE(vp_read(segment, 0, b.data(), b.size()) == VP_OK);
  CHECK(b[20000] == 'x');
  CHECK(std::count(b.begin(), b.end(), '\0') == 39999);
}

TEST_CASE_FIXTURE(Creating, "a sealed segment refuses writes and another seal") {
  connect();
  create("new", 16384);
  REQUIRE(vp_seal(segment) == VP_OK);
  const char x = 'x';
  CHECK(vp_write(segment, 0, &x, 1) == VP_DENIED);
  CHECK(vp_seal(segment) == VP_DENIED);
  CHECK(vp_abort(segment) == VP_DENIED);
  auto info = VP_INIT(vp_segment_info);
  REQUIRE(vp_segment_status(segment, &info) == VP_OK);
  CHECK(info.state == VP_SEALED);
}

TEST_CASE_FIXTURE(Creating, "part of a page that has left is refused, the whole page is not") {
  connect();
  create("new", 65536);
  const auto data = expected(65536);
  REQUIRE(vp_write(segment, 0, data.data(), 16384) == VP_OK);
  CHECK(vp_write(segment, 5, data.data(), 10) == VP_INVALID);
  CHECK(vp_write(segment, 0, data.data(), 16384) == VP_OK);
  CHECK(vp_write(segment, 65530, data.data(), 10) == VP_INVALID);
}

TEST_CASE_FIXTURE(Creating, "too many pages in parts are refused until some are complete") {
  connect();
  create("new", 65 * 16384);
  const char x = 'x';
  for (std::uint64_t p = 0; p < 64; ++p) REQUIRE(vp_write(segment, p * 16384, &x, 1) == VP_OK);
  CHECK(vp_write(segment, 64 * 16384, &x, 1) == VP_BUSY);
  const auto data = expected(16383);
  REQUIRE(vp_write(segment, 1, data.data(), data.size()) == VP_OK);
  CHECK(vp_write(segment, 64 * 16384, &x, 1) == VP_OK);
}

TEST_CASE_FIXTURE(Creating, "aborting and closing drop it by its id, and the name's holder stays") {
  pool.add("held", 16384);
  connect();
  create("held", 16384);
  REQUIRE(vp_abort(segment) == VP_OK);
  CHECK(vp_abort(segment) == VP_INVALID);
  create("held", 16384);
  REQUIRE(vp_close(segment) == VP_OK);
  CHECK(pool.aborts == 2);
  char b[4];
  CHECK(vp_read(open("held"), 0, b, 4) == VP_OK);
}

TEST_CASE_FIXTURE(Creating, "it cannot be mapped before it is sealed") {
  connect();
  create("new", 16384);
  vp_view v{};
  vp_range r{};
  CHECK(vp_map(segment, nullptr, &v, &r) == VP_BUSY);
  REQUIRE(vp_seal(segment) == VP_OK);
  CHECK(vp_map(segment, nullptr, &v, &r) == VP_OK);
  CHECK(vp_unmap(v) == VP_OK);
}

TEST_CASE_FIXTURE(Creating, "bad wishes are refused before the daemon hears of them") {
  connect();
  auto o = VP_INIT(vp_create_options);
  CHECK(vp_create(session, "x", &o, &segment) == VP_INVALID);
  CHECK(vp_create(session, "x", nullptr, &segment) == VP_INVALID);
  o.bytes = 100;
  auto t = VP_INIT(vp_tensor);
  t.rank = 9;
  o.tensors = &t;
  o.tensor_count = 1;
  CHECK(vp_create(session, "x", &o, &segment) == VP_INVALID);
}
