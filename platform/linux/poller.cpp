// Linux: epoll and eventfd.
#include "platform/poller.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>

namespace vrampool::platform {

namespace {

constexpr std::size_t kBatch = 64;

epoll_event to_epoll(std::uint64_t token, PollFor what) {
  epoll_event e{};
  if (static_cast<unsigned>(what) & static_cast<unsigned>(PollFor::read)) e.events |= EPOLLIN | EPOLLRDHUP;
  if (static_cast<unsigned>(what) & static_cast<unsigned>(PollFor::write)) e.events |= EPOLLOUT;
  e.data.u64 = token;
  return e;
}

PollEvent from_epoll(const epoll_event& e) {
  return {e.data.u64, (e.events & EPOLLIN) != 0, (e.events & EPOLLOUT) != 0,
          (e.events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)) != 0};
}

// epoll_pwait2 has nanoseconds, since 5.11; before, milliseconds, rounded up so that no deadline is polled for.
int wait_epoll(int fd, epoll_event* events, int room, Duration timeout) {
  timespec t{static_cast<time_t>(timeout.ns / 1'000'000'000), static_cast<long>(timeout.ns % 1'000'000'000)};
  const int n = ::epoll_pwait2(fd, events, room, timeout.ns < 0 ? nullptr : &t, nullptr);
  if (n >= 0 || errno != ENOSYS) return n;
  const std::int64_t ms = std::min<std::int64_t>((timeout.ns + 999'999) / 1'000'000, INT_MAX);
  return ::epoll_wait(fd, events, room, timeout.ns < 0 ? -1 : static_cast<int>(ms));
}

}  // namespace

Result<Poller> Poller::create() {
  UniqueFd fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!fd) return error_errno(errno, "creating an epoll descriptor");
  return Poller(std::move(fd));
}

Status Poller::add(int fd, std::uint64_t token, PollFor what) {
  epoll_event e = to_epoll(token, what);
  if (::epoll_ctl(fd_.get(), EPOLL_CTL_ADD, fd, &e) != 0) return error_errno(errno, "watching a descriptor");
  return {};
}

Status Poller::modify(int fd, std::uint64_t token, PollFor what) {
  epoll_event e = to_epoll(token, what);
  if (::epoll_ctl(fd_.get(), EPOLL_CTL_MOD, fd, &e) != 0)
    return error_errno(errno, "changing the watch of a descriptor");
  return {};
}

void Poller::remove(int fd) { ::epoll_ctl(fd_.get(), EPOLL_CTL_DEL, fd, nullptr); }

std::size_t Poller::wait(std::span<PollEvent> out, Duration timeout) {
  std::array<epoll_event, kBatch> events;
  const int room = static_cast<int>(std::min(out.size(), kBatch));
  const int n = wait_epoll(fd_.get(), events.data(), room, timeout);
  for (int i = 0; i < n; ++i) out[static_cast<std::size_t>(i)] = from_epoll(events[static_cast<std::size_t>(i)]);
  return n > 0 ? static_cast<std::size_t>(n) : 0;
}

Result<Doorbell> Doorbell::create() {
  UniqueFd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) return error_errno(errno, "creating a doorbell");
  return Doorbell(std::move(fd), UniqueFd());
}

void Doorbell::ring() const {
  const std::uint64_t one = 1;
  // EAGAIN means that it already rings as loud as it can.
  [[maybe_unused]] const ssize_t n = ::write(read_end_.get(), &one, sizeof one);
}

bool Doorbell::drain() const {
  std::uint64_t count = 0;
  return ::read(read_end_.get(), &count, sizeof count) == static_cast<ssize_t>(sizeof count);
}

}  // namespace vrampool::platform
