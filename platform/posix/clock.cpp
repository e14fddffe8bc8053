// Clocks that POSIX has on every system: steady time, wall time, CPU time.
#include "platform/clock.h"

#include <sys/resource.h>
#include <time.h>

#include "base/assert.h"

namespace vrampool::platform {

namespace {
std::int64_t read_ns(clockid_t id) {
  timespec t{};
  const int rc = ::clock_gettime(id, &t);
  VP_ASSERT(rc == 0);
  return static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}
}  // namespace

std::int64_t monotonic_ns() { return read_ns(CLOCK_MONOTONIC); }
std::int64_t unix_ms() { return read_ns(CLOCK_REALTIME) / 1'000'000; }
Duration thread_cpu_time() { return {read_ns(CLOCK_THREAD_CPUTIME_ID)}; }
Duration process_cpu_time() { return {read_ns(CLOCK_PROCESS_CPUTIME_ID)}; }

}  // namespace vrampool::platform
