// macOS: os_sync_wait_on_address, shared between processes (14.4).
#include "platform/futex.h"

#include <errno.h>
#include <stddef.h>

#include <algorithm>

// os/os_sync_wait_on_address.h is not in every SDK tree; the symbols are exported by libSystem.
extern "C" {
int os_sync_wait_on_address_with_timeout(void* address, uint64_t value, size_t size, uint32_t flags, uint32_t clock,
                                         uint64_t timeout_ns);
int os_sync_wake_by_address_any(void* address, size_t size, uint32_t flags);
int os_sync_wake_by_address_all(void* address, size_t size, uint32_t flags);
}

namespace vrampool::platform {

namespace {
constexpr std::uint32_t kShared = 1;          // OS_SYNC_WAIT_ON_ADDRESS_SHARED, OS_SYNC_WAKE_BY_ADDRESS_SHARED
constexpr std::uint32_t kClockAbsolute = 32;  // OS_CLOCK_MACH_ABSOLUTE_TIME
}  // namespace

static_assert(std::atomic<std::uint32_t>::is_always_lock_free && sizeof(std::atomic<std::uint32_t>) == 4);

FutexResult futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, Duration timeout) {
  if (word.load() != expected) return FutexResult::changed;
  // A timeout of 0 is refused with EINVAL.
  const auto ns = static_cast<std::uint64_t>(std::max<std::int64_t>(timeout.ns, 1));
  if (::os_sync_wait_on_address_with_timeout(&word, expected, 4, kShared, kClockAbsolute, ns) >= 0)
    return FutexResult::woken;
  return errno == ETIMEDOUT ? FutexResult::timed_out : FutexResult::woken;
}

void futex_wake_one(std::atomic<std::uint32_t>& word) { ::os_sync_wake_by_address_any(&word, 4, kShared); }
void futex_wake_all(std::atomic<std::uint32_t>& word) { ::os_sync_wake_by_address_all(&word, 4, kShared); }

}  // namespace vrampool::platform
