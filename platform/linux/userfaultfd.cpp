// Calls on a userfaultfd.
#include "platform/linux/userfaultfd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

namespace vrampool::platform::uffd {

namespace {

int call(int fd, unsigned long request, void* argument) { return ::ioctl(fd, request, argument) == 0 ? 0 : errno; }

std::uint64_t positive(std::int64_t done) { return done > 0 ? static_cast<std::uint64_t>(done) : 0; }

UniqueFd by_system_call(int flags) {
  return UniqueFd(static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | flags)));
}

}  // namespace

Opened open(int device_fd) {
  if (device_fd >= 0)
    if (UniqueFd fd(::ioctl(device_fd, USERFAULTFD_IOC_NEW, O_CLOEXEC | O_NONBLOCK)); fd)
      return {std::move(fd), false, 0};
  if (UniqueFd fd = by_system_call(0); fd) return {std::move(fd), false, 0};
  if (UniqueFd fd = by_system_call(UFFD_USER_MODE_ONLY); fd) return {std::move(fd), true, 0};
  return {UniqueFd(), false, errno};
}

int enable(int fd, std::uint64_t features, std::uint64_t* supported) {
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = features;
  const int rc = call(fd, UFFDIO_API, &api);
  if (supported != nullptr) *supported = rc == 0 ? api.features : 0;
  return rc;
}

int register_range(int fd, std::uint64_t at, std::uint64_t bytes) {
  uffdio_register r{};
  r.range = {at, bytes};
  r.mode = UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_MINOR | UFFDIO_REGISTER_MODE_WP;
  return call(fd, UFFDIO_REGISTER, &r);
}

int wake(int fd, std::uint64_t at, std::uint64_t bytes) {
  uffdio_range range{at, bytes};
  return call(fd, UFFDIO_WAKE, &range);
}

int write_protect(int fd, std::uint64_t at, std::uint64_t bytes, bool protect) {
  uffdio_writeprotect w{};
  w.range = {at, bytes};
  w.mode = protect ? UFFDIO_WRITEPROTECT_MODE_WP : 0;
  return call(fd, UFFDIO_WRITEPROTECT, &w);
}

int continue_range(int fd, std::uint64_t at, std::uint64_t bytes, bool protect, std::uint64_t& done) {
  uffdio_continue c{};
  c.range = {at, bytes};
  c.mode = protect ? UFFDIO_CONTINUE_MODE_WP : 0;
  const int rc = call(fd, UFFDIO_CONTINUE, &c);
  done = rc == 0 ? bytes : positive(c.mapped);
  return rc;
}

int copy(int fd, std::uint64_t to, const void* from, std::uint64_t bytes, std::uint64_t& done) {
  uffdio_copy c{};
  c.dst = to;
  c.src = reinterpret_cast<std::uintptr_t>(from);
  c.len = bytes;
  const int rc = call(fd, UFFDIO_COPY, &c);
  done = rc == 0 ? bytes : positive(c.copy);
  return rc;
}

// O_NONBLOCK belongs to the open file, which the client shares: it could clear it and let our read hang. Where the
// kernel reads userfaultfd by iterator (6.10) RWF_NOWAIT decides per call; before that, poll reports an error once the
// flag is gone.
int read_messages(int fd, std::span<uffd_msg> out) {
  iovec io{out.data(), out.size_bytes()};
  ssize_t n = ::preadv2(fd, &io, 1, -1, RWF_NOWAIT);
  if (n < 0 && (errno == EOPNOTSUPP || errno == ESPIPE || errno == EINVAL)) {
    pollfd p{fd, POLLIN, 0};
    if (::poll(&p, 1, 0) <= 0) return 0;
    if ((p.revents & POLLIN) == 0) return -1;
    n = ::read(fd, out.data(), out.size_bytes());
  }
  if (n >= 0) return static_cast<int>(static_cast<std::size_t>(n) / sizeof(uffd_msg));
  return errno == EAGAIN || errno == EINTR ? 0 : -1;
}

}  // namespace vrampool::platform::uffd
