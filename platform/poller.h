// Waits for many descriptors at once (epoll, kqueue), and a Doorbell that another thread can ring.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/result.h"
#include "base/time.h"
#include "base/unique_fd.h"

namespace vrampool::platform {

struct PollEvent {
  std::uint64_t token = 0;
  bool readable = false;
  bool writable = false;
  bool hung_up = false;  // the other side closed, or the descriptor failed; what was sent before may still be readable
};

enum class PollFor : std::uint8_t { none = 0, read = 1, write = 2, read_write = 3 };

// Level-triggered: an event comes back until it is dealt with.
// Threads: one waits; others may add, modify and remove meanwhile.
// Ownership: descriptors stay the caller's; remove before closing.
class Poller {
 public:
  static Result<Poller> create();

  Status add(int fd, std::uint64_t token, PollFor what);
  Status modify(int fd, std::uint64_t token, PollFor what);
  // No error when the descriptor is not watched.
  void remove(int fd);

  // Fills `out` from the front; returns how many. Returns 0 when `timeout` passed or a signal came. A timeout below
  // zero waits for ever; 0 does not wait. Allocates nothing.
  std::size_t wait(std::span<PollEvent> out, Duration timeout);

  // Readable when any watched descriptor is: a Poller can be watched by another Poller.
  int fd() const { return fd_.get(); }

 private:
  explicit Poller(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

// Rings a thread that sleeps in Poller::wait. Rings between two drains are one ring.
// Threads: ring from any thread and from signal handlers; drain from the waiting thread.
class Doorbell {
 public:
  static Result<Doorbell> create();
  void ring() const;
  // Takes all rings so far; false when there was none.
  bool drain() const;
  // Watch this one for reading.
  int fd() const { return read_end_.get(); }

 private:
  Doorbell(UniqueFd read_end, UniqueFd write_end) : read_end_(std::move(read_end)), write_end_(std::move(write_end)) {}
  UniqueFd read_end_;
  UniqueFd write_end_;  // empty on Linux, where an eventfd is both
};

}  // namespace vrampool::platform
