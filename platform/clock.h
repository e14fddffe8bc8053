// Clocks: the one that runs through suspend (leases, deadlines), a steady one for latencies, and CPU time.
//
// Threads: any. Blocking: never. Errors: none; a clock that cannot be read is a bug of the system and asserts.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace vrampool::platform {

// Runs while the machine sleeps, so that a lease ends although its holder slept (CLOCK_BOOTTIME,
// mach_continuous_time). Never goes back within one boot. About 20 to 50 ns a call.
Instant now();

// Steady, stands still during suspend: differences are latencies. Units: nanoseconds.
std::int64_t monotonic_ns();

// Wall clock, for people and records; may jump. Units: milliseconds since 1970.
std::int64_t unix_ms();

// CPU time used by the calling thread, by this process, and by another process of this machine (nothing when it
// is gone or not ours to ask).
Duration thread_cpu_time();
Duration process_cpu_time();
Duration process_cpu_time_of(int pid);  // 0 when it cannot be known

}  // namespace vrampool::platform
