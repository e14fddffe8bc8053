// Atomic steps on the fault ring.
#include "platform/posix/fault_ring.h"

#include <errno.h>
#include <sched.h>
#include <sys/socket.h>

#include "platform/posix/unix_peer.h"

namespace vrampool::platform {

std::uint64_t fault_ring_bytes(std::uint64_t pages) {
  const std::uint64_t granule = fault_granule_bytes();
  return (sizeof(FaultRing) + pages * sizeof(std::atomic<std::uint32_t>) + granule - 1) / granule * granule;
}

namespace {
template <class Wanted>
PageAccess change_access(std::atomic<std::uint32_t>& word, Wanted wanted) {
  std::uint32_t seen = word.load(std::memory_order_acquire);
  for (;;) {
    const std::uint32_t next = (seen & ~kPageAccessBits) | static_cast<std::uint32_t>(wanted(granted_access(seen)));
    if (word.compare_exchange_weak(seen, next, std::memory_order_acq_rel, std::memory_order_acquire))
      return granted_access(seen);
  }
}
}  // namespace

PageAccess raise_access(std::atomic<std::uint32_t>& word, PageAccess access) {
  return change_access(word, [access](PageAccess had) { return had > access ? had : access; });
}

PageAccess lower_access(std::atomic<std::uint32_t>& word, PageAccess left) {
  return change_access(word, [left](PageAccess had) { return had < left ? had : left; });
}

void lock_page(std::atomic<std::uint32_t>& word) {
  while ((word.fetch_or(kPageLocked, std::memory_order_acquire) & kPageLocked) != 0) ::sched_yield();
}

void unlock_page(std::atomic<std::uint32_t>& word) { word.fetch_and(~kPageLocked, std::memory_order_release); }

void ring_bell(std::atomic<std::uint32_t>& rung, int socket) {
  if (rung.exchange(1) != 0) return;
  const char byte = 1;
  // A full socket rings already; a closed one has nobody to hear, and the next daemon looks at everything when it
  // attaches.
  [[maybe_unused]] const ssize_t n = ::send(socket, &byte, 1, unix_peer::send_flags() | MSG_DONTWAIT);
}

bool drain_bell(std::atomic<std::uint32_t>& rung, int socket) {
  char bytes[64];
  bool open = true;
  for (;;) {
    const ssize_t n = ::recv(socket, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) open = false;
    if (n < static_cast<ssize_t>(sizeof bytes)) break;
  }
  // Only now: what is posted after this rings again, what was posted before is seen by the look that follows.
  rung.exchange(0);
  return open;
}

}  // namespace vrampool::platform
