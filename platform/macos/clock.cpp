// macOS: the clock that runs through sleep, and the CPU time of another process.
#include "platform/clock.h"

#include <libproc.h>
#include <mach/mach_time.h>
#include <sys/proc_info.h>

namespace vrampool::platform {

namespace {

mach_timebase_info_data_t timebase() {
  static const mach_timebase_info_data_t kBase = [] {
    mach_timebase_info_data_t b{};
    ::mach_timebase_info(&b);
    return b;
  }();
  return kBase;
}

// 125/3 on Apple silicon: a 128-bit product keeps years of uptime exact.
std::int64_t to_ns(std::uint64_t ticks) {
  const mach_timebase_info_data_t b = timebase();
  return static_cast<std::int64_t>(static_cast<unsigned __int128>(ticks) * b.numer / b.denom);
}

}  // namespace

Instant now() { return {to_ns(::mach_continuous_time())}; }

Duration process_cpu_time_of(int pid) {
  proc_taskinfo info{};
  if (::proc_pidinfo(pid, PROC_PIDTASKINFO, 0, &info, sizeof info) != static_cast<int>(sizeof info)) return {};
  return {to_ns(info.pti_total_user + info.pti_total_system)};
}

}  // namespace vrampool::platform
