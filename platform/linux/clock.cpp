// Linux: the clock that runs through suspend, and the CPU time of another process.
#include "platform/clock.h"

#include <time.h>

#include "base/assert.h"

namespace vrampool::platform {

Instant now() {
  timespec t{};
  const int rc = ::clock_gettime(CLOCK_BOOTTIME, &t);
  VP_ASSERT(rc == 0);
  return {static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec};
}

Duration process_cpu_time_of(int pid) {
  clockid_t id = 0;
  timespec t{};
  if (::clock_getcpuclockid(pid, &id) != 0 || ::clock_gettime(id, &t) != 0) return {};
  return {static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec};
}

}  // namespace vrampool::platform
