// Explicit reads and writes: sizes, many at once, deadlines, refusals, restarts.
#include <atomic>
#include <cstring>
#include <thread>

#include "fixture.h"

using namespace vrampool;
using namespace vrampool::client;
using namespace vrampool::client::testing;

namespace {

constexpr std::uint64_t kMiB = 1 << 20;

struct Chain {
  vp_segment segment{};
  std::array<char, 4096> buffer{};
  std::atomic<int> left{8};
  std::atomic<int> blocking_status{-1};
};

void read_again(vp_status status, void* user) {
  auto& c = *static_cast<Chain*>(user);
  if (status != VP_OK) return;
  char byte;
  c.blocking_status = vp_read(c.segment, 0, &byte, 1);
  if (--c.left > 0) vp_read_async(c.segment, 0, c.buffer.data(), c.buffer.size(), read_again, user, nullptr);
}

void count_down(vp_status status, void* user) {
  if (status == VP_OK) --*static_cast<std::atomic<int>*>(user);
}

}  // namespace

TEST_CASE_FIXTURE(Fixture, "reads of any offset and size bring the segment's bytes") {
  pool.add("a", 5 * kMiB);
  connect();
  const vp_segment s = open("a");
  for (const auto& [offset, bytes] : std::vector<std::pair<std::uint64_t, std::uint64_t>>{
           {0, 1}, {5, 16384}, {16384, 16384}, {kMiB - 1, 2}, {3, 128 * 1024}, {1, 4 * kMiB + 17}, {0, 5 * kMiB}}) {
    std::vector<std::byte> b(bytes);
    REQUIRE(vp_read(s, offset, b.data(), bytes) == VP_OK);
    CHECK(wrong_bytes(b.data(), bytes, offset) == 0);
  }
  CHECK(vp_read(s, 7, nullptr, 0) == VP_OK);
}

TEST_CASE_FIXTURE(Fixture, "reads by pool address find the open segment that holds it") {
  auto& a = pool.add("a", 65536);
  connect();
  std::array<std::byte, 100> b;
  CHECK(vp_read_address(session, a.record.address + 50, b.data(), b.size()) == VP_NOT_FOUND);
  open("a");
  REQUIRE(vp_read_address(session, a.record.address + 50, b.data(), b.size()) == VP_OK);
  CHECK(wrong_bytes(b.data(), b.size(), 50) == 0);
}

TEST_CASE_FIXTURE(Fixture, "threads read at once and each gets its own bytes") {
  pool.add("a", 4 * kMiB);
  connect();
  const vp_segment s = open("a");
  std::atomic<std::uint64_t> wrong{0}, failed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      std::vector<std::byte> b(300000);
      for (int i = 0; i < 40; ++i) {
        const std::uint64_t offset = static_cast<std::uint64_t>(t * 40 + i) * 7919;
        const std::uint64_t bytes = i % 3 == 0 ? 300000 : 1000;
        failed += vp_read(s, offset, b.data(), bytes) != VP_OK;
        wrong += wrong_bytes(b.data(), bytes, offset);
      }
    });
  }
  for (auto& t : threads) t.join();
  CHECK(failed == 0);
  CHECK(wrong == 0);
}

TEST_CASE_FIXTURE(Fixture, "more asynchronous reads than the window are all served, by token or by completion") {
  pool.add("a", 4 * kMiB);
  connect();
  const vp_segment s = open("a");
  std::vector<std::array<std::byte, 1000>> b(300);
  std::vector<vp_token> tokens(150);
  std::atomic<int> left{150};
  for (std::size_t i = 0; i < 300; ++i) {
    const bool by_token = i % 2 == 0;
    REQUIRE(vp_read_async(s, i * 1234, b[i].data(), 1000, by_token ? nullptr : count_down, &left,
                          by_token ? &tokens[i / 2] : nullptr) == VP_OK);
  }
  for (const vp_token t : tokens) CHECK(vp_wait(t, -1) == VP_OK);
  CHECK(soon([&] { return left == 0; }));
  for (std::size_t i = 0; i < 300; ++i) CHECK(wrong_bytes(b[i].data(), 1000, i * 1234) == 0);
  CHECK(vp_wait(tokens[0], 0) == VP_INVALID);
}

TEST_CASE_FIXTURE(Fixture, "a completion may start another read but not block") {
  pool.add("a", 65536);
  connect();
  Chain chain;
  chain.segment = open("a");
  REQUIRE(vp_read_async(chain.segment, 0, chain.buffer.data(), chain.buffer.size(), read_again, &chain, nullptr) ==
          VP_OK);
  CHECK(soon([&] { return chain.left == 0; }));
  CHECK(chain.blocking_status == VP_BUSY);
}

TEST_CASE_FIXTURE(Fixture, "vp_wait with a time-out looks again until the answer is there") {
  pool.add("a", 65536);
  connect();
  const vp_segment s = open("a");
  pool.hold_reads = true;
  char b[16];
  vp_token t{};
  REQUIRE(vp_read_async(s, 0, b, sizeof b, nullptr, nullptr, &t) == VP_OK);
  CHECK(vp_wait(t, 0) == VP_TIMEOUT);
  CHECK(vp_wait(t, 10) == VP_TIMEOUT);
  CHECK(soon([&] { return pool.reads > 0; }));
  pool.hold_reads = false;
  kill();  // the held request is sent again to the next daemon
  start();
  CHECK(vp_wait(t, -1) == VP_OK);
  CHECK(wrong_bytes(b, sizeof b, 0) == 0);
}

TEST_CASE_FIXTURE(Fixture, "a read that is not answered in time ends with a time-out, and the next one works") {
  pool.add("a", 65536);
  connect(200);
  const vp_segment s = open("a");
  pool.hold_reads = true;
  std::vector<std::byte> b(40000);
  CHECK(vp_read(s, 0, b.data(), b.size()) == VP_TIMEOUT);
  std::atomic<int> ends{1};
  CHECK(vp_read_async(
            s, 0, b.data(), 10, [](vp_status st, void* u) { *static_cast<std::atomic<int>*>(u) = st; }, &ends,
            nullptr) == VP_OK);
  CHECK(soon([&] { return ends == VP_TIMEOUT; }));
  pool.hold_reads = false;
  REQUIRE(vp_read(s, 0, b.data(), b.size()) == VP_OK);
  CHECK(wrong_bytes(b.data(), b.size(), 0) == 0);
}

TEST_CASE_FIXTURE(Fixture, "requests refused as busy are asked again") {
  pool.add("a", 4 * kMiB);
  connect();
  const vp_segment s = open("a");
  pool.busy_answers = 40;
  std::vector<std::byte> b(3 * kMiB);
  REQUIRE(vp_read(s, 0, b.data(), b.size()) == VP_OK);
  CHECK(wrong_bytes(b.data(), b.size(), 0) == 0);
  CHECK(pool.busy_answers == 0);
}

TEST_CASE_FIXTURE(Fixture, "a page that is lost is an error of the read that needs it") {
  auto& a = pool.add("a", 65536);
  a.lost.insert(2);
  connect();
  const vp_segment s = open("a");
  char b[16];
  CHECK(vp_read(s, 0, b, sizeof b) == VP_OK);
  CHECK(vp_read(s, 2 * 16384, b, sizeof b) == VP_LOST);
  CHECK(std::strstr(vp_last_error(), "gone") != nullptr);
}

TEST_CASE_FIXTURE(Fixture, "reads go on over daemon restarts") {
  pool.add("a", kMiB);
  connect();
  const vp_segment s = open("a");
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> wrong{0}, failed{0}, done{0};
  std::thread reader([&] {
    std::vector<std::byte> b(200000);
    for (std::uint64_t i = 0; !stop; ++i) {
      const std::uint64_t bytes = i % 2 == 0 ? 200000 : 5000;
      failed += vp_read(s, i % 1000, b.data(), bytes) != VP_OK;
      wrong += wrong_bytes(b.data(), bytes, i % 1000);
      ++done;
    }
  });
  for (int i = 0; i < 3; ++i) {
    const std::uint64_t before = done;
    CHECK(soon([&] { return done > before + 5; }));
    kill();
    start();
  }
  const std::uint64_t before = done;
  CHECK(soon([&] { return done > before + 5; }));
  stop = true;
  reader.join();
  CHECK(failed == 0);
  CHECK(wrong == 0);
  CHECK(reconnects() >= 3);
}

TEST_CASE_FIXTURE(Fixture, "a daemon that stays away makes calls unreachable after their deadline") {
  pool.add("a", 65536);
  connect(150);
  const vp_segment s = open("a");
  kill();
  char b[16];
  CHECK(soon([&] { return !connected(); }));
  CHECK(vp_read(s, 0, b, sizeof b) == VP_UNREACHABLE);
  vp_segment t{};
  CHECK(vp_open(session, "a", &t) == VP_UNREACHABLE);
  start();
  CHECK(soon([&] { return connected(); }));
  CHECK(vp_read(s, 0, b, sizeof b) == VP_OK);
}

TEST_CASE_FIXTURE(Fixture, "disconnecting ends operations in flight as cancelled") {
  pool.add("a", 65536);
  connect();
  const vp_segment s = open("a");
  pool.hold_reads = true;
  char b[16];
  std::atomic<int> ended{-1};
  REQUIRE(vp_read_async(
              s, 0, b, sizeof b, [](vp_status st, void* u) { *static_cast<std::atomic<int>*>(u) = st; }, &ended,
              nullptr) == VP_OK);
  REQUIRE(vp_disconnect(session) == VP_OK);
  session = {};
  CHECK(ended == VP_CANCELLED);
}
