// Linux: futex(2) without the private flag, so that it works across processes.
#include "platform/futex.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

namespace vrampool::platform {

static_assert(std::atomic<std::uint32_t>::is_always_lock_free && sizeof(std::atomic<std::uint32_t>) == 4);

FutexResult futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, Duration timeout) {
  const std::int64_t ns = std::max<std::int64_t>(timeout.ns, 0);
  const timespec t{static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
  if (::syscall(SYS_futex, &word, FUTEX_WAIT, expected, &t, nullptr, 0) == 0) return FutexResult::woken;
  if (errno == EAGAIN) return FutexResult::changed;
  return errno == ETIMEDOUT ? FutexResult::timed_out : FutexResult::woken;
}

void futex_wake_one(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}
void futex_wake_all(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace vrampool::platform
