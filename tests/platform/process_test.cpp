// Process housekeeping.
#include "platform/process.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "platform/poller.h"

using namespace vrampool;
using namespace vrampool::platform;

TEST_CASE("the descriptor limit is raised as far as it goes") {
  const auto limit = raise_descriptor_limit(4096);
  REQUIRE(limit.ok());
  CHECK(*limit >= 256);
  CHECK(*raise_descriptor_limit(16) == *limit);
}

TEST_CASE("the end of a process is seen") {
  int gate[2];
  REQUIRE(::pipe(gate) == 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    char c = 0;
    ::close(gate[1]);
    [[maybe_unused]] const ssize_t n = ::read(gate[0], &c, 1);
    ::_exit(0);
  }
  ::close(gate[0]);
  const auto watch = watch_process_end(pid);
  REQUIRE(watch.ok());
  Poller poller = Poller::create().value();
  REQUIRE(poller.add(watch->get(), 1, PollFor::read).ok());
  std::array<PollEvent, 1> events;
  CHECK(poller.wait(events, Duration{}) == 0);
  CHECK(process_exists(pid));
  ::close(gate[1]);
  CHECK(poller.wait(events, Duration::seconds(5)) == 1);
  ::waitpid(pid, nullptr, 0);
  CHECK_FALSE(process_exists(pid));
  CHECK(watch_process_end(pid).error().code == VP_NOT_FOUND);
}

TEST_CASE("raising one's own OOM rank is allowed to everybody") { CHECK(set_oom_score_adjust(100).ok()); }
