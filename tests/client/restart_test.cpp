// Daemons that die under mapped memory, come back, or do not; and children that forked.
#include <sys/wait.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "fixture.h"

using namespace vrampool;
using namespace vrampool::client;
using namespace vrampool::client::testing;

namespace {

struct Restart : Fixture {
  vp_view view{};
  vp_range range{};
  void map(const char* name, std::uint32_t flags, vp_on_loss on_loss = VP_ON_LOSS_POISON) {
    auto o = VP_INIT(vp_map_options);
    o.flags = flags;
    o.on_loss = on_loss;
    REQUIRE(vp_map(open(name), &o, &view, &range) == VP_OK);
  }
  vp_view_info status() const {
    auto info = VP_INIT(vp_view_info);
    REQUIRE(vp_map_status(view, &info) == VP_OK);
    return info;
  }
  const std::byte* at(std::uint64_t page) const { return static_cast<const std::byte*>(range.data) + page * 16384; }
};

// Exit status of a child that runs `body`.
int child(const std::function<int()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(body());
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

TEST_CASE("a thread that waits for a page is served by the next daemon and never reads zeros") {
  for_each_source([] {
    Restart r;
    r.pool.add("a", 64 * 16384);
    r.connect();
    r.map("a", VP_MAP_LAZY);
    CHECK(wrong_bytes(r.at(0), 16384, 0) == 0);
    r.pool.hold_faults = true;
    std::atomic<std::uint64_t> wrong{~0ull};
    std::thread reader([&] { wrong = wrong_bytes(r.at(7), 16384, 7 * 16384); });
    r.kill();
    CHECK(soon([&] { return !r.connected(); }));
    CHECK(wrong == ~0ull);
    r.pool.hold_faults = false;
    r.start();
    reader.join();
    CHECK(wrong == 0);
    CHECK(r.pool.reattached_views == 1);
    CHECK(wrong_bytes(r.at(20), 16384, 20 * 16384) == 0);
    CHECK(r.status().status == VP_OK);
  });
}

TEST_CASE("without a daemon in time missing pages read as NaN, present ones stay, and the error sticks") {
  for_each_source([] {
    Restart r;
    r.pool.add("a", 64 * 16384);
    r.connect(0, 200);
    r.map("a", VP_MAP_LAZY);
    std::atomic<int> losses{0};
    vp_set_error_callback(
        r.session, [](const vp_loss* l, void* n) { *static_cast<std::atomic<int>*>(n) += l->status == VP_UNREACHABLE; },
        &losses);
    CHECK(wrong_bytes(r.at(3), 16384, 3 * 16384) == 0);
    r.kill();
    const auto* floats = reinterpret_cast<const float*>(r.at(9));
    CHECK(std::isnan(floats[17]));  // waits for the deadline
    CHECK(r.status().status == VP_UNREACHABLE);
    CHECK(r.status().pages_lost >= 1);
    CHECK(wrong_bytes(r.at(3), 16384, 3 * 16384) == 0);
    CHECK(soon([&] { return losses == 1; }));
    // A daemon that comes back serves new maps; this one stays as it is.
    r.start();
    CHECK(soon([&] { return r.connected(); }));
    CHECK(r.status().status == VP_UNREACHABLE);
    REQUIRE(vp_unmap(r.view) == VP_OK);
    r.map("a", VP_MAP_LAZY);
    CHECK(wrong_bytes(r.at(9), 16384, 9 * 16384) == 0);
    CHECK(r.status().status == VP_OK);
  });
}

TEST_CASE("a view that waits on loss outlasts the deadline") {
  for_each_source([] {
    Restart r;
    r.pool.add("a", 64 * 16384);
    r.connect(0, 100);
    r.map("a", VP_MAP_LAZY, VP_ON_LOSS_WAIT);
    Restart other;  // its own deadline tells when ours has passed
    other.pool.add("b", 16384);
    other.connect(0, 300);
    other.map("b", VP_MAP_LAZY);
    r.kill();
    other.kill();
    std::atomic<std::uint64_t> wrong{~0ull};
    std::thread reader([&] { wrong = wrong_bytes(r.at(2), 16384, 2 * 16384); });
    CHECK(soon([&] { return other.status().status == VP_UNREACHABLE; }));
    CHECK(wrong == ~0ull);
    r.start();
    reader.join();
    CHECK(wrong == 0);
    CHECK(r.status().status == VP_OK);
  });
}

TEST_CASE_FIXTURE(Restart, "resident and direct maps do not notice that the daemon is gone") {
  pool.add("a", 64 * 16384);
  connect(0, 50);
  map("a", VP_MAP_RESIDENT);
  const vp_range resident = range;
  pool.direct = true;
  map("a", VP_MAP_LAZY);
  kill();
  CHECK(soon([&] { return !connected(); }));
  CHECK(wrong_bytes(resident.data, resident.bytes, 0) == 0);
  CHECK(wrong_bytes(range.data, range.bytes, 0) == 0);
  CHECK(status().status == VP_OK);
}

TEST_CASE_FIXTURE(Restart, "a view whose segment was removed while the daemon was away is lost at once") {
  pool.add("a", 64 * 16384);
  connect();
  map("a", VP_MAP_LAZY);
  kill();
  pool.find("a")->removed = true;
  start();
  CHECK(soon([&] { return status().status == VP_LOST; }));
  CHECK(std::isnan(*reinterpret_cast<const float*>(at(1))));
}

TEST_CASE_FIXTURE(Restart, "pins are asked for again after a restart, until they are taken away") {
  pool.add("a", 64 * 16384);
  connect();
  const vp_segment s = open("a");
  REQUIRE(vp_pin(s, 0, 16384) == VP_OK);
  REQUIRE(vp_pin(s, 16384, 16384) == VP_OK);
  REQUIRE(vp_unpin(s, 0, 16384) == VP_OK);
  CHECK(pool.pins == 3);
  kill();
  start();
  CHECK(soon([&] { return reconnects() == 1 && pool.pins == 4; }));
}

TEST_CASE_FIXTURE(Restart, "what must not happen twice has an unknown outcome when the daemon dies over it") {
  pool.add("a", 16384);
  connect();
  pool.silent = true;
  std::atomic<int> ended{-1};
  std::thread caller([&] { ended = vp_remove(session, "a", 0); });
  CHECK(soon([&] { return pool.swallowed == 1; }));
  kill();
  pool.silent = false;
  start();
  caller.join();
  CHECK(ended == VP_UNKNOWN_OUTCOME);
}

TEST_CASE_FIXTURE(Restart, "aborting maps end the process when no daemon comes back") {
  pool.add("a", 64 * 16384);
  pool.hold_faults = true;
  const pid_t pid = ::fork();
  if (pid == 0) {
    connect(0, 100);
    map("a", VP_MAP_LAZY, VP_ON_LOSS_ABORT);
    ::_exit(static_cast<int>(*at(1)));
  }
  CHECK(soon([&] { return pool.attached_views == 1; }));
  kill();
  int status = 0;
  ::waitpid(pid, &status, 0);
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT));
}

TEST_CASE_FIXTURE(Restart, "a forked child is told to reconnect, and then has a session of its own") {
  pool.add("a", 64 * 16384);
  connect();
  const vp_segment s = open("a");
  map("a", VP_MAP_LAZY);
  const int status = child([&] {
    char b[16];
    vp_segment t{};
    if (vp_read(s, 0, b, sizeof b) != VP_STALE) return 1;
    if (vp_open(session, "a", &t) != VP_STALE) return 2;
    if (vp_unmap(view) != VP_STALE) return 3;
    if (vp_disconnect(session) != VP_STALE) return 4;
    if (vp_after_fork(session) != VP_OK) return 5;
    if (vp_read(s, 0, b, sizeof b) != VP_STALE) return 6;
    if (vp_open(session, "a", &t) != VP_OK) return 7;
    if (vp_read(t, 5, b, sizeof b) != VP_OK || wrong_bytes(b, sizeof b, 5) != 0) return 8;
    vp_view v{};
    vp_range r{};
    if (vp_map(t, nullptr, &v, &r) != VP_OK || wrong_bytes(r.data, r.bytes, 0) != 0) return 9;
    return vp_disconnect(session) == VP_OK ? 0 : 10;
  });
  CHECK(status == 0);
  CHECK(vp_after_fork(session) == VP_OK);  // in the parent: nothing happens
  char b[16];
  CHECK(vp_read(s, 0, b, sizeof b) == VP_OK);
  CHECK(wrong_bytes(at(3), 16384, 3 * 16384) == 0);
}

TEST_CASE_FIXTURE(Restart, "a child that touches a view dies instead of reading zeros") {
  pool.add("a", 64 * 16384);
  connect();
  map("a", VP_MAP_LAZY);
  CHECK(child([&] { return static_cast<int>(*at(1)) & 1; }) == 128 + SIGSEGV);
  CHECK(wrong_bytes(at(1), 16384, 16384) == 0);
}
