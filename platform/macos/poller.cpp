// macOS: kqueue, and a pipe as doorbell.
#include "platform/poller.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/event.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace vrampool::platform {

namespace {

constexpr std::size_t kBatch = 64;

bool wants(PollFor what, PollFor part) { return (static_cast<unsigned>(what) & static_cast<unsigned>(part)) != 0; }

int change(int queue, int fd, std::int16_t filter, bool on, std::uint64_t token) {
  struct kevent e {};
  EV_SET(&e, static_cast<uintptr_t>(fd), filter, on ? EV_ADD | EV_ENABLE : EV_DELETE, 0, 0,
         reinterpret_cast<void*>(token));
  const int rc = ::kevent(queue, &e, 1, nullptr, 0, nullptr);
  return rc == 0 || (!on && errno == ENOENT) ? 0 : errno;
}

Status set_interest(int queue, int fd, std::uint64_t token, PollFor what) {
  const int read = change(queue, fd, EVFILT_READ, wants(what, PollFor::read), token);
  const int write = change(queue, fd, EVFILT_WRITE, wants(what, PollFor::write), token);
  if (read != 0 || write != 0) return error_errno(read != 0 ? read : write, "watching a descriptor");
  return {};
}

PollEvent from_kevent(const struct kevent& e) {
  const bool ended = (e.flags & (EV_EOF | EV_ERROR)) != 0;
  return {reinterpret_cast<std::uint64_t>(e.udata), e.filter == EVFILT_READ, e.filter == EVFILT_WRITE, ended};
}

bool prepare(int fd) { return ::fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 && ::fcntl(fd, F_SETFL, O_NONBLOCK) == 0; }

}  // namespace

Result<Poller> Poller::create() {
  UniqueFd fd(::kqueue());
  if (!fd || ::fcntl(fd.get(), F_SETFD, FD_CLOEXEC) != 0) return error_errno(errno, "creating a kqueue");
  return Poller(std::move(fd));
}

Status Poller::add(int fd, std::uint64_t token, PollFor what) { return set_interest(fd_.get(), fd, token, what); }
Status Poller::modify(int fd, std::uint64_t token, PollFor what) { return set_interest(fd_.get(), fd, token, what); }

void Poller::remove(int fd) {
  change(fd_.get(), fd, EVFILT_READ, false, 0);
  change(fd_.get(), fd, EVFILT_WRITE, false, 0);
}

// Reading and writing of one descriptor come as two events with one token.
std::size_t Poller::wait(std::span<PollEvent> out, Duration timeout) {
  std::array<struct kevent, kBatch> events;
  const int room = static_cast<int>(std::min(out.size(), kBatch));
  const timespec t{static_cast<time_t>(timeout.ns / 1'000'000'000), static_cast<long>(timeout.ns % 1'000'000'000)};
  const int n = ::kevent(fd_.get(), nullptr, 0, events.data(), room, timeout.ns < 0 ? nullptr : &t);
  for (int i = 0; i < n; ++i) out[static_cast<std::size_t>(i)] = from_kevent(events[static_cast<std::size_t>(i)]);
  return n > 0 ? static_cast<std::size_t>(n) : 0;
}

Result<Doorbell> Doorbell::create() {
  int ends[2] = {-1, -1};
  if (::pipe(ends) != 0) return error_errno(errno, "creating a doorbell");
  UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  if (!prepare(ends[0]) || !prepare(ends[1])) return error_errno(errno, "creating a doorbell");
  return Doorbell(std::move(read_end), std::move(write_end));
}

void Doorbell::ring() const {
  const char one = 1;
  // A full pipe rings already.
  [[maybe_unused]] const ssize_t n = ::write(write_end_.get(), &one, 1);
}

bool Doorbell::drain() const {
  char bytes[256];
  bool rang = false;
  while (::read(read_end_.get(), bytes, sizeof bytes) > 0) rang = true;
  return rang;
}

}  // namespace vrampool::platform
