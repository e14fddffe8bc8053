// Eviction: the next access faults again and gets fresh bytes; never zeros, never torn, never stale.
#include <signal.h>
#include <sys/wait.h>

#include <random>

#include "fault_harness.h"

using namespace vrampool;
using namespace vrampool::platform;
using namespace vrampool::platform::testing;

TEST_CASE("an evicted page faults again and reads fresh bytes, never zeros") {
  for_each_source([](FaultSourceKind kind) {
    TestDaemon daemon(kind, 4);
    const auto client = daemon.spawn([](ClientSide& self) {
      for (std::uint64_t round = 1; round <= 50; ++round) {
        self.wait_for(0, round);
        CLIENT_CHECK(self.page_is(2, round));
        self.board().value[1] = round;
      }
      return 0;
    });
    for (std::uint64_t round = 1; round <= 50; ++round) {
      daemon.board->value[0] = round;
      REQUIRE(daemon.serve_until([&] { return daemon.board->value[1].load() == round; }));
      daemon.evict(2);
      REQUIRE(daemon.serve_until([&] { return !daemon.pages[2].evicting; }));
      CHECK(daemon.object.allocated_bytes() == 0);
    }
    CHECK(daemon.finish(client) == 0);
    CHECK(daemon.pages[2].generation == 50);
  });
}

TEST_CASE("taking back a page that a client never had needs no answer from it") {
  for_each_source([](FaultSourceKind kind) {
    TestDaemon daemon(kind, 4);
    const auto client = daemon.spawn([](ClientSide& self) {
      self.wait_for(0, 1);
      return self.page_is(1, 2) ? 0 : 1;
    });
    daemon.fill(1);
    CHECK(daemon.clients[client].faults->revoke(kPageBytes, kPageBytes, PageAccess::none) == RevokeState::done);
    daemon.evict(1);
    CHECK_FALSE(daemon.pages[1].evicting);
    daemon.board->value[0] = 1;
    CHECK(daemon.finish(client) == 0);
  });
}

namespace {

constexpr std::uint64_t kRacePages = 24;

// Reads random words until told to stop. Counts in the board: 1 reads, 2 zeros, 3 torn or foreign, 4 stale.
int read_at_random(ClientSide& self, unsigned seed) {
  std::mt19937 random(seed);
  Board& board = self.board();
  std::uint64_t reads = 0;
  while (board.value[0].load(std::memory_order_relaxed) == 0) {
    const std::uint64_t page = random() % kRacePages;
    const std::size_t word = random() % kWordsPerPage;
    const std::uint64_t floor = board.floor[page].load();
    const std::uint64_t value = self.words(page)[word];
    ++reads;
    if (value == 0)
      board.value[2].fetch_add(1);
    else if (!is_of(value, page, word))
      board.value[3].fetch_add(1);
    else if (generation_of(value) < floor)
      board.value[4].fetch_add(1);
  }
  board.value[1].fetch_add(reads);
  return 0;
}

}  // namespace

TEST_CASE("readers racing an evictor see no zero, torn or stale word") {
  for_each_source([](FaultSourceKind kind) {
    TestDaemon daemon(kind, kRacePages);
    const auto a = daemon.spawn([](ClientSide& self) { return read_at_random(self, 1); });
    const auto b = daemon.spawn([](ClientSide& self) { return read_at_random(self, 2); });
    std::mt19937 random(3);
    std::uint64_t evictions = 0;
    const RaceClock clock(Duration::millis(1500));
    while (clock.goes_on(evictions >= 100)) {
      daemon.serve_once(Duration::micros(50));
      const std::uint64_t page = random() % kRacePages;
      if (daemon.pages[page].valid && !daemon.pages[page].evicting) ++evictions, daemon.evict(page);
    }
    daemon.board->value[0] = 1;
    CHECK(daemon.finish(a) == 0);
    CHECK(daemon.finish(b) == 0);
    MESSAGE(to_text(kind) << ": " << evictions << " evictions, " << daemon.faults_seen << " faults, "
                          << daemon.board->value[1].load() << " reads");
    CHECK(evictions >= 100);
    CHECK(daemon.board->value[1].load() > 100);
    CHECK(daemon.board->value[2].load() == 0);
    CHECK(daemon.board->value[3].load() == 0);
    CHECK(daemon.board->value[4].load() == 0);
  });
}

TEST_CASE("a page evicted while a client is stopped stays with it until it answers") {
  for_each_source([](FaultSourceKind kind) {
    TestDaemon daemon(kind, 1);
    const auto client = daemon.spawn([](ClientSide& self) {
      CLIENT_CHECK(self.page_is(0, 1));
      self.board().value[1] = 1;
      self.wait_for(0, 1);
      return self.page_is(0, 2) ? 0 : 1;
    });
    REQUIRE(daemon.serve_until([&] { return daemon.board->value[1].load() == 1; }));
    REQUIRE(::kill(daemon.clients[client].pid, SIGSTOP) == 0);
    int status = 0;
    REQUIRE(::waitpid(daemon.clients[client].pid, &status, WUNTRACED) > 0);
    daemon.evict(0);
    daemon.serve_once(Duration::millis(20));
    // userfaultfd needs no help of the client; posix waits for it.
    CHECK(daemon.pages[0].evicting == (kind == FaultSourceKind::posix));
    CHECK(::kill(daemon.clients[client].pid, SIGCONT) == 0);
    REQUIRE(daemon.serve_until([&] { return !daemon.pages[0].evicting; }));
    daemon.board->value[0] = 1;
    CHECK(daemon.finish(client) == 0);
  });
}
