// Clocks, the machine's identity and memory figures.
#include <doctest/doctest.h>
#include <unistd.h>

#include <thread>

#include "platform/clock.h"
#include "platform/machine.h"
#include "platform/pressure.h"

using namespace vrampool;
using namespace vrampool::platform;

TEST_CASE("clocks go forward and CPU time does not run while a thread waits") {
  const Instant a = now();
  const std::int64_t m = monotonic_ns();
  const Duration cpu = thread_cpu_time();
  while (monotonic_ns() - m < 5'000'000) std::this_thread::yield();
  CHECK(now() > a);
  CHECK(thread_cpu_time() >= cpu);
  CHECK(process_cpu_time() >= thread_cpu_time() - cpu);
  CHECK(process_cpu_time_of(::getpid()).ns > 0);
  CHECK(process_cpu_time_of(-5).ns == 0);
  CHECK(unix_ms() > 1'600'000'000'000);
}

TEST_CASE("the machine has one identity and each boot has one") {
  const auto boot = boot_id();
  REQUIRE(boot.ok());
  CHECK(*boot == *boot_id());
  if (const auto id = machine_id(); id.ok()) {
    CHECK(*id == *machine_id());
    CHECK((id->hi != 0 || id->lo != 0));
  } else {
    CHECK(id.error().code == VP_NOT_FOUND);
  }
  CHECK(random_id() != random_id());
}

TEST_CASE("the machine describes itself") {
  const MachineText text = machine_text();
  CHECK_FALSE(text.host_name.empty());
  CHECK_FALSE(text.os.empty());
  CHECK_FALSE(text.kernel.empty());
  CHECK(ram_bytes() > (64u << 20));
  CHECK(page_bytes() >= 4096);
  CHECK(core_count() >= 1);
}

TEST_CASE("memory of a process: proportional is at most resident") {
  const auto mine = process_memory(::getpid());
  REQUIRE(mine.ok());
  CHECK(mine->resident > 0);
  CHECK(mine->proportional > 0);
  CHECK(mine->proportional <= mine->resident + (1u << 20));
  CHECK_FALSE(process_memory(0x3fffffff).ok());
}

TEST_CASE("pressure rises as available memory falls or tasks stall") {
  const PressureRule rule;
  const std::uint64_t ram = 100;
  CHECK(judge_pressure(rule, 50, ram, 0, 0) == PressureLevel::normal);
  CHECK(judge_pressure(rule, 7, ram, 0, 0) == PressureLevel::warn);
  CHECK(judge_pressure(rule, 2, ram, 0, 0) == PressureLevel::critical);
  CHECK(judge_pressure(rule, 50, ram, 21, 0) == PressureLevel::warn);
  CHECK(judge_pressure(rule, 50, ram, 21, 21) == PressureLevel::critical);
  CHECK(judge_pressure(rule, 50, 0, 0, 0) == PressureLevel::normal);
  CHECK(memory_pressure().available_bytes > 0);
}
