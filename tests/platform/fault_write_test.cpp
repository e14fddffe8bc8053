// Writing views: write faults, and no store slips through once a downgrade is done.
#include <thread>

#include "fault_harness.h"

using namespace vrampool;
using namespace vrampool::platform;
using namespace vrampool::platform::testing;

namespace {

std::uint64_t word_in_alias(TestDaemon& daemon, std::uint64_t page, std::size_t word) {
  return reinterpret_cast<volatile std::uint64_t*>(daemon.object.memory().data() + page * kPageBytes)[word];
}

}  // namespace

TEST_CASE("a first write after reading asks for the right to write, once, and the daemon sees the bytes") {
  for_each_source([](FaultSourceKind kind) {
    TestDaemon daemon(kind, 2, PageAccess::write);
    const auto client = daemon.spawn([](ClientSide& self) {
      CLIENT_CHECK(self.page_is(0, 1));
      for (std::size_t i = 0; i < kWordsPerPage; ++i) self.writable(0)[i] = i;
      self.writable(1)[7] = 70;  // first touch is a write
      CLIENT_CHECK(self.words(1)[8] == pattern(1, 1, 8));
      return 0;
    });
    std::vector<bool> writes;
    daemon.on_fault = [&](std::size_t, const ViewEvent& e) {
      writes.push_back(e.write);
      return false;
    };
    CHECK(daemon.finish(client) == 0);
    CHECK(writes == std::vector<bool>{false, true, true});
    CHECK(word_in_alias(daemon, 0, 100) == 100);
    CHECK(word_in_alias(daemon, 1, 7) == 70);
  });
}

namespace {

// Several threads count in words of page 0 without pause; each its own word.
constexpr std::size_t kWriters = 3;

int write_without_pause(ClientSide& self) {
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kWriters; ++t)
    threads.emplace_back([&, t] {
      volatile std::uint64_t* word = self.writable(0) + t * 600;
      std::uint64_t count = 0;
      while (self.board().value[0].load(std::memory_order_relaxed) == 0) *word = ++count;
      self.board().value[20 + t] = count;
    });
  for (auto& t : threads) t.join();
  return 0;
}

std::array<std::uint64_t, kWriters> sample(TestDaemon& daemon) {
  std::array<std::uint64_t, kWriters> s;
  for (std::size_t t = 0; t < kWriters; ++t) s[t] = word_in_alias(daemon, 0, t * 600);
  return s;
}

// Faults are held back while the daemon owns the page. Returns how many samples changed after `done`.
std::uint64_t count_late_stores(TestDaemon& daemon, PageAccess left, std::uint64_t& cycles, std::uint64_t& fresh) {
  bool owned = false;
  bool revoked = false;
  std::uint64_t late = 0;
  daemon.on_fault = [&](std::size_t, const ViewEvent&) { return owned; };
  daemon.on_revoked = [&](const ViewEvent&) { revoked = true; };
  auto last = sample(daemon);
  const RaceClock clock(Duration::millis(1200));
  while (clock.goes_on(fresh >= 10)) {
    owned = true;
    revoked = daemon.clients[0].faults->revoke(0, kPageBytes, left) == RevokeState::done;
    REQUIRE(daemon.serve_until([&] { return revoked; }));
    const auto first = sample(daemon);
    const std::int64_t until = monotonic_ns() + 20'000;
    while (monotonic_ns() < until) {
    }
    late += sample(daemon) != first ? 1 : 0;
    fresh += first != last ? 1 : 0;
    last = first;
    ++cycles;
    owned = false;
    CHECK(daemon.reveal(0, 0, 1, PageAccess::write).pages == 1);
    daemon.serve_once(Duration::micros(100));
  }
  return late;
}

}  // namespace

TEST_CASE("no store reaches a page between the answer to a revoke and the next grant") {
  for_each_source([](FaultSourceKind kind) {
    for (const PageAccess left : {PageAccess::read, PageAccess::none}) {
      // userfaultfd takes everything away by punching, which is eviction's test.
      if (kind == FaultSourceKind::userfaultfd && left == PageAccess::none) continue;
      TestDaemon daemon(kind, 1, PageAccess::write);
      const auto client = daemon.spawn(write_without_pause);
      REQUIRE(daemon.serve_until([&] { return daemon.pages[0].valid; }));
      std::uint64_t cycles = 0;
      std::uint64_t fresh = 0;
      const std::uint64_t late = count_late_stores(daemon, left, cycles, fresh);
      daemon.on_fault = {};
      daemon.board->value[0] = 1;
      CHECK(daemon.finish(client) == 0);
      MESSAGE(to_text(kind) << ": " << cycles << " cycles, " << fresh << " with new stores, " << late << " late");
      CHECK(fresh >= 10);
      CHECK(late == 0);
      for (std::size_t t = 0; t < kWriters; ++t)
        CHECK(word_in_alias(daemon, 0, t * 600) == daemon.board->value[20 + t].load());
    }
  });
}

TEST_CASE("dirty eviction loses no store: take the right to write, copy out, give it back elsewhere") {
  for_each_source([](FaultSourceKind kind) {
    TestDaemon daemon(kind, 1, PageAccess::write);
    const auto client = daemon.spawn([](ClientSide& self) {
      std::uint64_t n = 0;
      while (self.board().value[0].load() == 0) {
        CLIENT_CHECK(n == 0 || self.words(0)[3] == n);
        self.writable(0)[3] = ++n;
      }
      self.board().value[2] = n;
      return 0;
    });
    std::vector<std::byte> copy(kPageBytes);
    std::uint64_t rounds = 0;
    bool owned = false;
    bool revoked = false;
    daemon.on_fault = [&](std::size_t, const ViewEvent&) { return owned; };
    daemon.on_revoked = [&](const ViewEvent&) { revoked = true; };
    const auto take = [&](PageAccess left) {
      revoked = daemon.clients[0].faults->revoke(0, kPageBytes, left) == RevokeState::done;
      REQUIRE(daemon.serve_until([&] { return revoked; }));
    };
    REQUIRE(daemon.serve_until([&] { return daemon.pages[0].valid; }));
    const RaceClock clock(Duration::millis(700));
    while (clock.goes_on(rounds >= 10) && daemon.clients[0].faults) {
      owned = true;
      take(PageAccess::read);
      std::copy_n(daemon.object.memory().begin(), kPageBytes, copy.begin());
      take(PageAccess::none);
      REQUIRE(daemon.object.release(0, kPageBytes).ok());
      daemon.clients[0].faults->wake(0, kPageBytes);
      REQUIRE(daemon.object.reserve(0, kPageBytes).ok());
      std::copy_n(copy.begin(), kPageBytes, daemon.object.memory().begin());
      owned = false;
      daemon.reveal(0, 0, 1, PageAccess::write);
      daemon.serve_once(Duration::micros(50));
      ++rounds;
    }
    daemon.on_fault = {};
    daemon.board->value[0] = 1;
    CHECK(daemon.finish(client) == 0);
    MESSAGE(to_text(kind) << ": " << rounds << " rounds, " << daemon.board->value[2].load() << " stores");
    CHECK(rounds >= 10);
    CHECK(daemon.board->value[2].load() > 0);
    CHECK(word_in_alias(daemon, 0, 3) == daemon.board->value[2].load());
  });
}
