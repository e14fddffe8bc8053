// What every fault source must do: bytes appear when touched, whole, right, for every client.
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>

#include <cstring>
#include <thread>

#include "fault_harness.h"

using namespace vrampool;
using namespace vrampool::platform;
using namespace vrampool::platform::testing;

TEST_CASE("a touched page appears with the daemon's bytes, and no page is asked for twice in peace") {
  for_each_source([](FaultSourceKind kind) {
    TestDaemon daemon(kind, 64);
    const auto client = daemon.spawn([](ClientSide& self) {
      CLIENT_CHECK(reinterpret_cast<std::uintptr_t>(self.view().base()) % kPageBytes == 0);
      for (std::uint64_t p = 0; p < 64; ++p) CLIENT_CHECK(self.page_is(p, 1));
      for (std::uint64_t p = 0; p < 64; ++p) CLIENT_CHECK(self.page_is(p, 1));
      return 0;
    });
    CHECK(daemon.finish(client) == 0);
    CHECK(daemon.faults_seen == 64);
  });
}

TEST_CASE("a second client gets the same bytes by a fault of its own") {
  for_each_source([](FaultSourceKind kind) {
    TestDaemon daemon(kind, 16);
    const auto read_all = [](ClientSide& self) {
      self.wait_for(0, 1);
      for (std::uint64_t p = 0; p < 16; ++p) CLIENT_CHECK(self.page_is(p, 1));
      return 0;
    };
    const auto a = daemon.spawn(read_all);
    const auto b = daemon.spawn(read_all);
    daemon.board->value[0] = 1;
    CHECK(daemon.finish(a) == 0);
    CHECK(daemon.finish(b) == 0);
    CHECK(daemon.faults_seen >= 32);
    for (const PageRecord& page : daemon.pages) CHECK(page.generation == 1);
  });
}

TEST_CASE("a page that is half filled is never visible, neither to the one who asked nor to another client") {
  for_each_source([](FaultSourceKind kind) {
    TestDaemon daemon(kind, 1);
    const auto read_first = [](ClientSide& self, int gate) {
      self.wait_for(gate, 1);
      const bool right = self.words(0)[0] == pattern(0, 7, 0) && self.page_is(0, 7);
      self.board().value[10].fetch_add(1);
      CLIENT_CHECK(right);
      return 0;
    };
    const auto a = daemon.spawn([&](ClientSide& self) { return read_first(self, 0); });
    const auto b = daemon.spawn([&](ClientSide& self) { return read_first(self, 1); });
    int asked = 0;
    daemon.on_fault = [&](std::size_t, const ViewEvent&) { return ++asked > 0; };
    daemon.board->value[0] = 1;
    REQUIRE(daemon.serve_until([&] { return asked == 1; }));
    daemon.fill_part(0, 7, 0, kWordsPerPage / 2);
    daemon.board->value[1] = 1;
    REQUIRE(daemon.serve_until([&] { return asked == 2; }));
    CHECK(daemon.board->value[10].load() == 0);
    daemon.fill_part(0, 7, kWordsPerPage / 2, kWordsPerPage / 2);
    CHECK(daemon.reveal(a, 0).pages == 1);
    CHECK(daemon.reveal(b, 0).pages == 1);
    CHECK(daemon.finish(a) == 0);
    CHECK(daemon.finish(b) == 0);
  });
}

TEST_CASE("pages revealed ahead are read without any fault") {
  for_each_source([](FaultSourceKind kind) {
    TestDaemon daemon(kind, 128);
    const auto client = daemon.spawn([](ClientSide& self) {
      self.wait_for(0, 1);
      for (std::uint64_t p = 0; p < 128; ++p) CLIENT_CHECK(self.page_is(p, 1));
      return 0;
    });
    for (std::uint64_t p = 0; p < 128; ++p) daemon.fill(p);
    CHECK(daemon.reveal(client, 0, 128).pages == 128);
    daemon.board->value[0] = 1;
    CHECK(daemon.finish(client) == 0);
    // The posix client protects a page when it first touches it, but the daemon is not asked.
    CHECK(daemon.faults_seen == 0);
  });
}

TEST_CASE("many threads on one page all go on, and read the same") {
  for_each_source([](FaultSourceKind kind) {
    TestDaemon daemon(kind, 32);
    const auto client = daemon.spawn([](ClientSide& self) {
      std::atomic<int> wrong{0};
      std::vector<std::thread> threads;
      for (int t = 0; t < 6; ++t)
        threads.emplace_back([&, t] {
          for (std::uint64_t p = 0; p < 32; ++p)
            for (std::size_t i = static_cast<std::size_t>(t); i < kWordsPerPage; i += 211)
              if (self.words(p)[i] != pattern(p, 1, i)) ++wrong;
        });
      for (auto& t : threads) t.join();
      CLIENT_CHECK(wrong == 0);
      return 0;
    });
    CHECK(daemon.finish(client) == 0);
  });
}

TEST_CASE("revealing a run deals with pages that are there already and pages that are not in the object") {
  for_each_source([](FaultSourceKind kind) {
    TestDaemon daemon(kind, 8);
    const auto client = daemon.spawn([](ClientSide& self) {
      CLIENT_CHECK(self.page_is(1, 1));  // mapped before the run comes
      self.board().value[1] = 1;
      self.wait_for(0, 1);
      for (std::uint64_t p = 0; p < 4; ++p) CLIENT_CHECK(self.page_is(p, 1));
      return 0;
    });
    REQUIRE(daemon.serve_until([&] { return daemon.board->value[1].load() == 1; }));
    daemon.fill(0);
    daemon.fill(3);
    if (kind == FaultSourceKind::userfaultfd) {  // posix has no notion of presence: the caller's table is all there is
      const Revealed part = daemon.reveal(client, 0, 4);
      CHECK(part.pages == 3);
      CHECK(part.absent.count() == 1);
      CHECK(part.absent.test(2));
      CHECK_FALSE(part.gone);
    }
    daemon.fill(2);
    const Revealed whole = daemon.reveal(client, 0, 4);
    CHECK(whole.pages == 4);
    CHECK(whole.absent.none());
    const auto before = daemon.faults_seen;
    daemon.board->value[0] = 1;
    CHECK(daemon.finish(client) == 0);
    CHECK(daemon.faults_seen == before);
  });
}

TEST_CASE("a view is one range of directly mapped and faulting parts") {
  for_each_source([](FaultSourceKind kind) {
    TestDaemon daemon(kind, 4);
    auto piece = daemon.store->create("piece", 2 * kPageBytes).value();
    REQUIRE(piece.map(MapUse::sealed).ok());
    std::memset(piece.memory().data(), 0x5a, 2 * kPageBytes);
    const UniqueFd piece_fd = piece.read_only_descriptor().value();
    const auto client = daemon.spawn([&](ClientSide& self) {
      CLIENT_CHECK(self.view().map_direct(kPageBytes, piece_fd.get(), 0, 2 * kPageBytes).ok());
      CLIENT_CHECK(self.page_is(0, 1));
      CLIENT_CHECK(self.words(1)[0] == 0x5a5a5a5a5a5a5a5aull &&
                   self.words(2)[kWordsPerPage - 1] == 0x5a5a5a5a5a5a5a5aull);
      CLIENT_CHECK(self.page_is(3, 1));
      CLIENT_CHECK(self.view().map_direct(3 * kPageBytes, piece_fd.get(), 0, 2 * kPageBytes).error().code ==
                   VP_INVALID);
      CLIENT_CHECK(self.view().map_cache(1, piece_fd.get(), 0, kPageBytes).error().code == VP_INVALID);
      return 0;
    });
    CHECK(daemon.finish(client) == 0);
    CHECK(daemon.faults_seen == 2);
  });
}

// userfaultfd serves system calls; posix cannot: the kernel does not raise signals for its own accesses.
TEST_CASE("a system call on a missing page is served, or fails with EFAULT as documented") {
  for_each_source([](FaultSourceKind kind) {
    TestDaemon daemon(kind, 4);
    const auto client = daemon.spawn([](ClientSide& self) {
      int ends[2];
      CLIENT_CHECK(::pipe(ends) == 0);
      const auto* at = self.view().base() + 2 * kPageBytes;
      const ssize_t n = ::write(ends[1], at, 64);
      if (self.view().serves_system_calls())
        CLIENT_CHECK(n == 64);
      else
        CLIENT_CHECK(n < 0 && errno == EFAULT);
      (void)self.words(2)[0];
      if (n < 0) CLIENT_CHECK(::write(ends[1], at, 64) == 64);
      std::uint64_t got[8];
      CLIENT_CHECK(::read(ends[0], got, 64) == 64);
      CLIENT_CHECK(got[7] == pattern(2, 1, 7));
      return 0;
    });
    CHECK(daemon.finish(client) == 0);
  });
}

TEST_CASE("writing to a read-only view is the program's error: SIGSEGV, whether the page is there or not") {
  for_each_source([](FaultSourceKind kind) {
    TestDaemon daemon(kind, 2);
    const auto present = daemon.spawn([](ClientSide& self) {
      (void)self.words(0)[0];
      self.writable(0)[0] = 1;
      return 0;
    });
    const auto missing = daemon.spawn([](ClientSide& self) {
      self.writable(1)[0] = 1;
      return 0;
    });
    for (const auto client : {present, missing}) {
      const int how = daemon.finish(client);
      CHECK((how == 128 + SIGSEGV || how == 128 + SIGBUS));
    }
  });
}

TEST_CASE("after unmapping a view its addresses are an ordinary error again") {
  for_each_source([](FaultSourceKind kind) {
    TestDaemon daemon(kind, 2);
    const auto client = daemon.spawn([](ClientSide& self) {
      const volatile std::uint64_t* at = self.words(0);
      CLIENT_CHECK(at[0] == pattern(0, 1, 0));
      self.end_view();
      self.board().value[0] = 1;
      return static_cast<int>(at[0] & 1);
    });
    const int how = daemon.finish(client);
    CHECK(daemon.board->value[0].load() == 1);
    CHECK((how == 128 + SIGSEGV || how == 128 + SIGBUS));
  });
}
