// The frame of a data loop: a thread that waits for descriptors, runs numbered commands from other threads, and ticks.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "platform/poller.h"

namespace vrampool::service::data {

inline constexpr Instant kNever{std::numeric_limits<std::int64_t>::max()};

// Gets the events of one descriptor, on the loop's thread.
class Watched {
 public:
  virtual ~Watched() = default;
  virtual void on_event(const platform::PollEvent&) = 0;
};

// Threads: post() and acknowledged() any; everything else the loop's own thread, or before start().
class EventLoop {
 public:
  // `spin`: how long to poll without sleeping after something happened.
  static Result<std::unique_ptr<EventLoop>> create(std::string name, Duration spin);
  ~EventLoop();

  // `tick(now)` runs when its last answer, the next wanted moment, has come; see wake_at().
  void start(std::function<Instant(Instant)> tick);
  void stop();  // runs what was posted before, then ends and joins
  bool here() const { return std::this_thread::get_id() == thread_.get_id(); }

  // Commands run in the order of their numbers; a command is acknowledged when it has run. After stop(): run by nobody.
  CommandNo post(std::function<void()> command);
  CommandNo acknowledged() const { return CommandNo{acknowledged_.load(std::memory_order_acquire)}; }

  using Token = std::uint64_t;
  Result<Token> watch(int fd, platform::PollFor what, Watched& watched);
  void change(Token, int fd, platform::PollFor what);
  // After this no event comes, not even one that was already collected.
  void unwatch(Token, int fd);
  // Another readable event although the descriptor may be silent: there is more to read above it.
  void again(Token);
  // The tick shall run at `when` at the latest.
  void wake_at(Instant when) {
    if (when < next_tick_) next_tick_ = when;
  }

 private:
  struct Slot {
    Watched* watched = nullptr;
    std::uint32_t generation = 0;
  };
  EventLoop(std::string name, Duration spin, platform::Poller poller, platform::Doorbell doorbell)
      : name_(std::move(name)), spin_(spin), poller_(std::move(poller)), doorbell_(std::move(doorbell)) {}
  void run();
  void run_commands();
  void deliver(const platform::PollEvent&);
  Watched* find(Token) const;
  Duration patience(Instant now, Instant active) const;

  std::string name_;
  Duration spin_;
  platform::Poller poller_;
  platform::Doorbell doorbell_;
  std::function<Instant(Instant)> tick_;
  Instant next_tick_{};
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_slots_;
  std::vector<Token> again_, again_now_;

  std::mutex mutex_;
  std::vector<std::function<void()>> inbox_;
  std::vector<std::function<void()>> running_;
  std::uint64_t issued_ = 0;
  std::atomic<std::uint64_t> acknowledged_{0};
  std::atomic<bool> posted_{false};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace vrampool::service::data
