// Wait on a 32-bit word in memory shared between processes, and wake its waiters.
//
// Threads: any, also inside a signal handler: neither call allocates, locks or logs.
// Source: futex(2); os_sync_wait_on_address (macOS 14.4).
#pragma once

#include <atomic>
#include <cstdint>

#include "base/time.h"

namespace vrampool::platform {

enum class FutexResult {
  woken,     // woken, or interrupted, or for no reason: look at the word again
  changed,   // the word did not hold `expected`
  timed_out  // `timeout` passed
};

// Blocks while `word == expected`, at most `timeout`. The word lies in a MAP_SHARED mapping or is private to the
// process.
FutexResult futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, Duration timeout);
void futex_wake_one(std::atomic<std::uint32_t>& word);
void futex_wake_all(std::atomic<std::uint32_t>& word);

}  // namespace vrampool::platform
