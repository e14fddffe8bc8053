// Lives and deaths: daemon gone and back, client killed, forked, poisoned; signals in between.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <thread>

#include "fault_harness.h"

using namespace vrampool;
using namespace vrampool::platform;
using namespace vrampool::platform::testing;

namespace {

// Long enough that a client which could go on would have.
constexpr Duration kLongEnough = Duration::millis(150);

void let_pass(Duration d) {
  const Instant end = now() + d;
  while (now() < end) ::usleep(1000);
}

constexpr std::uint64_t kAllOnes = ~std::uint64_t{0};

}  // namespace

TEST_CASE(
    "when the daemon dies clients wait and read no zeros; its successor serves what the dead one had read and what it "
    "had not") {
  for_each_source([](FaultSourceKind kind) {
    TestDaemon daemon(kind, 8);
    const auto client = daemon.spawn([](ClientSide& self) {
      const auto touch = [&](std::uint64_t page) {
        const bool right = self.page_is(page, 1);
        self.board().value[10].fetch_add(1);
        CLIENT_CHECK(right);
      };
      std::thread first([&] { touch(3); });
      self.wait_for(0, 1);
      std::thread second([&] { touch(5); });
      self.wait_for(0, 2);
      self.attach();
      first.join();
      second.join();
      CLIENT_CHECK(self.page_is(6, 1));
      return 0;
    });
    int taken = 0;
    daemon.on_fault = [&](std::size_t, const ViewEvent&) { return ++taken > 0; };  // read, never answered
    REQUIRE(daemon.serve_until([&] { return taken > 0; }));
    daemon.die();
    daemon.board->value[0] = 1;
    let_pass(kLongEnough);
    CHECK(daemon.board->value[10].load() == 0);
    CHECK(daemon.object.allocated_bytes() == 0);
    daemon.on_fault = {};
    daemon.board->value[0] = 2;
    daemon.attach(client);
    CHECK(daemon.finish(client) == 0);
    CHECK(daemon.board->value[10].load() == 2);
  });
}

TEST_CASE("a client killed while it waits is noticed, and harms nobody") {
  for_each_source([](FaultSourceKind kind) {
    TestDaemon daemon(kind, 4);
    const auto victim = daemon.spawn([](ClientSide& self) { return static_cast<int>(self.words(1)[0]); });
    const auto other = daemon.spawn([](ClientSide& self) {
      self.wait_for(0, 1);
      return self.page_is(1, 1) ? 0 : 1;
    });
    bool asked = false;
    daemon.on_fault = [&](std::size_t client, const ViewEvent&) {
      if (client == victim) asked = true;
      return client == victim;
    };
    REQUIRE(daemon.serve_until([&] { return asked; }));
    REQUIRE(::kill(daemon.clients[victim].pid, SIGKILL) == 0);
    CHECK(daemon.finish(victim) == 128 + SIGKILL);
    daemon.fill(1);
    if (daemon.clients[victim].faults) {
      const Revealed r = daemon.reveal(victim, 1);
      if (kind == FaultSourceKind::userfaultfd)
        CHECK(r.gone);
      else
        REQUIRE(daemon.serve_until([&] { return daemon.gone_seen == 1; }));
    }
    daemon.board->value[0] = 1;
    CHECK(daemon.finish(other) == 0);
  });
}

TEST_CASE("a child forked by the client gets SIGSEGV in the view, plants nothing, and the parent reads right") {
  for_each_source([](FaultSourceKind kind) {
    TestDaemon daemon(kind, 4);
    const auto client = daemon.spawn([](ClientSide& self) {
      CLIENT_CHECK(self.page_is(0, 1));
      for (const std::uint64_t page : {0, 2}) {
        const pid_t pid = ::fork();
        if (pid == 0) ::_exit(static_cast<int>(self.words(page)[0] & 1));
        const int how = exit_of(pid);
        CLIENT_CHECK(how == 128 + SIGSEGV || how == 128 + SIGBUS);
      }
      self.board().value[1] = 1;
      self.wait_for(0, 1);
      CLIENT_CHECK(self.page_is(2, 1));
      CLIENT_CHECK(self.page_is(0, 1));
      return 0;
    });
    REQUIRE(daemon.serve_until([&] { return daemon.board->value[1].load() == 1; }));
    CHECK(daemon.object.allocated_bytes() == kPageBytes);
    daemon.board->value[0] = 1;
    CHECK(daemon.finish(client) == 0);
  });
}

TEST_CASE("a forked child can map a view of its own") {
  for_each_source([](FaultSourceKind kind) {
    TestDaemon daemon(kind, 2);
    const UniqueFd fd = daemon.object.read_only_descriptor().value();
    const auto client = daemon.spawn([&](ClientSide& self) {
      CLIENT_CHECK(self.page_is(0, 1));
      const pid_t pid = ::fork();
      if (pid == 0) {
        ClientViewOptions options;
        options.kind = self.view().kind();
        options.bytes = 2 * kPageBytes;
        auto own = ClientView::create(options);
        CLIENT_CHECK(own.ok());
        CLIENT_CHECK((*own)->map_cache(0, fd.get(), 0, 2 * kPageBytes).ok());
        CLIENT_CHECK((*own)->attach_descriptors().ok());
        CLIENT_CHECK((*own)->poison_here(0, 2 * kPageBytes).ok());
        CLIENT_CHECK((*own)->base()[kPageBytes] == std::byte{0xff});
        own->reset();
        ::_exit(0);
      }
      CLIENT_CHECK(exit_of(pid) == 0);
      return self.page_is(1, 1) ? 0 : 1;
    });
    CHECK(daemon.finish(client) == 0);
  });
}

TEST_CASE("without a daemon past the deadline missing pages read as NaN, waiters go on, pages that were there stay") {
  for_each_source([](FaultSourceKind kind) {
    for (const PageAccess access : {PageAccess::read, PageAccess::write}) {
      TestDaemon daemon(kind, 64, access);
      const auto client = daemon.spawn([](ClientSide& self) {
        CLIENT_CHECK(self.page_is(0, 1));
        std::thread waiter([&] {
          const std::uint64_t value = self.words(3)[17];
          self.board().value[10] = value;
        });
        self.wait_for(0, 1);
        CLIENT_CHECK(self.view().pages_poisoned() == 0);
        CLIENT_CHECK(self.view().poison_here(0, self.view().bytes()).ok());
        waiter.join();
        for (std::uint64_t p = 1; p < 64; ++p)
          for (std::size_t i = 0; i < kWordsPerPage; ++i) CLIENT_CHECK(self.words(p)[i] == kAllOnes);
        CLIENT_CHECK(self.page_is(0, 1));
        CLIENT_CHECK(self.view().pages_poisoned() >= 63);
        return 0;
      });
      REQUIRE(daemon.serve_until([&] { return daemon.pages[0].valid; }));
      bool asked = false;
      daemon.on_fault = [&](std::size_t, const ViewEvent& e) {
        if (e.offset != 0) asked = true;
        return asked;
      };
      REQUIRE(daemon.serve_until([&] { return asked; }));
      daemon.die();
      daemon.board->value[0] = 1;
      CHECK(daemon.finish(client) == 0);
      CHECK(daemon.board->value[10].load() == kAllOnes);
      CHECK(daemon.object.allocated_bytes() == kPageBytes);  // nothing of it reached the shared object
    }
  });
}

TEST_CASE("poisoning a part leaves the rest to the daemon") {
  for_each_source([](FaultSourceKind kind) {
    TestDaemon daemon(kind, 4);
    const auto client = daemon.spawn([](ClientSide& self) {
      CLIENT_CHECK(self.view().poison_here(2 * kPageBytes, kPageBytes).ok());
      self.board().value[1] = 1;
      CLIENT_CHECK(self.words(2)[5] == kAllOnes);
      self.attach();
      CLIENT_CHECK(self.page_is(1, 1));
      return 0;
    });
    daemon.die();
    REQUIRE(daemon.serve_until([&] { return daemon.board->value[1].load() == 1; }));
    daemon.attach(client);
    CHECK(daemon.finish(client) == 0);
  });
}

TEST_CASE("signals: a handler that runs on a waiting thread may touch another missing page") {
  if (kThreadSanitizer) return;  // it would hold the signal back for as long as the thread waits
  for_each_source([](FaultSourceKind kind) {
    TestDaemon daemon(kind, 4);
    static ClientSide* current = nullptr;
    const auto client = daemon.spawn([](ClientSide& self) {
      current = &self;
      struct sigaction action {};
      action.sa_handler = [](int) {
        if (current->words(2)[9] == pattern(2, 1, 9)) current->board().value[5].fetch_add(1);
      };
      ::sigaction(SIGUSR1, &action, nullptr);
      self.board().value[4] = 1;
      return self.page_is(1, 1) ? 0 : 1;
    });
    bool held = false;
    daemon.on_fault = [&](std::size_t, const ViewEvent& e) {
      if (e.offset == kPageBytes) held = true;
      return e.offset == kPageBytes;
    };
    REQUIRE(daemon.serve_until([&] { return held; }));
    REQUIRE(::kill(daemon.clients[client].pid, SIGUSR1) == 0);
    REQUIRE(daemon.serve_until([&] { return daemon.board->value[5].load() == 1; }));
    daemon.on_fault = {};
    daemon.fill(1);
    daemon.reveal(client, 1);
    CHECK(daemon.finish(client) == 0);
  });
}

TEST_CASE("posix: faults outside of views go to the handler that was there before, and to one that came after") {
  if (kThreadSanitizer) return;
  TestDaemon daemon(FaultSourceKind::posix, 2);
  const auto own_handler = [](int) { ::_exit(42); };
  void* const guarded = ::mmap(nullptr, kPageBytes, PROT_NONE, MAP_PRIVATE | MAP_ANON, -1, 0);
  const auto crash = [guarded] { *static_cast<volatile int*>(guarded) = 1; };
  const UniqueFd fd = daemon.object.read_only_descriptor().value();
  const auto before = [&] {
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::signal(SIGSEGV, own_handler);
      ClientViewOptions options;
      options.bytes = 2 * kPageBytes;
      const auto view = ClientView::create(options);
      crash();
      ::_exit(view.ok() ? 1 : 2);
    }
    return exit_of(pid);
  };
  CHECK(before() == 42);
  const auto client = daemon.spawn([&](ClientSide& self) {
    ::signal(SIGSEGV, own_handler);  // replaced ours; mapping another part takes its place in front again
    CLIENT_CHECK(self.view().map_cache(kPageBytes, fd.get(), kPageBytes, kPageBytes).ok());
    CLIENT_CHECK(self.page_is(0, 1));
    crash();
    return 1;
  });
  CHECK(daemon.finish(client) == 42);
}

TEST_CASE("posix: a fault that waits past the view's deadline poisons its page by itself") {
  if (kThreadSanitizer) return;
  TestDaemon daemon(FaultSourceKind::posix, 2);
  const auto client = daemon.spawn(
      [](ClientSide& self) {
        CLIENT_CHECK(self.words(1)[0] == kAllOnes);
        CLIENT_CHECK(self.view().pages_poisoned() == 1);
        return 0;
      },
      Duration::millis(60));
  daemon.on_fault = [](std::size_t, const ViewEvent&) { return true; };
  CHECK(daemon.finish(client) == 0);
}
