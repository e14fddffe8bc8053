#include "service/data/event_loop.h"

#include <algorithm>
#include <array>
#include <limits>

#include "platform/clock.h"
#include "platform/process.h"

namespace vrampool::service::data {
namespace {

constexpr std::uint64_t kDoorbellToken = ~0ull;
constexpr std::size_t kEventsPerWait = 64;

}  // namespace

Result<std::unique_ptr<EventLoop>> EventLoop::create(std::string name, Duration spin) {
  VP_TRY(poller, platform::Poller::create());
  VP_TRY(doorbell, platform::Doorbell::create());
  std::unique_ptr<EventLoop> loop(new EventLoop(std::move(name), spin, std::move(poller), std::move(doorbell)));
  VP_CHECK(loop->poller_.add(loop->doorbell_.fd(), kDoorbellToken, platform::PollFor::read));
  return loop;
}

EventLoop::~EventLoop() { stop(); }

void EventLoop::start(std::function<Instant(Instant)> tick) {
  tick_ = std::move(tick);
  thread_ = std::thread([this] { run(); });
}

void EventLoop::stop() {
  if (!thread_.joinable()) return;
  stopping_.store(true, std::memory_order_release);
  doorbell_.ring();
  thread_.join();
}

CommandNo EventLoop::post(std::function<void()> command) {
  bool first = false;
  CommandNo number;
  {
    std::lock_guard lock(mutex_);
    first = inbox_.empty();
    inbox_.push_back(std::move(command));
    number = CommandNo{++issued_};
    posted_.store(true, std::memory_order_release);
  }
  if (first) doorbell_.ring();
  return number;
}

Result<EventLoop::Token> EventLoop::watch(int fd, platform::PollFor what, Watched& watched) {
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const std::uint32_t index = free_slots_.back();
  Slot& slot = slots_[index];
  const Token token = static_cast<std::uint64_t>(slot.generation) << 32 | index;
  VP_CHECK(poller_.add(fd, token, what));
  free_slots_.pop_back();
  slot.watched = &watched;
  return token;
}

void EventLoop::change(Token token, int fd, platform::PollFor what) { (void)poller_.modify(fd, token, what); }

void EventLoop::unwatch(Token token, int fd) {
  poller_.remove(fd);
  if (find(token) == nullptr) return;
  const auto index = static_cast<std::uint32_t>(token);
  slots_[index].watched = nullptr;
  slots_[index].generation = (slots_[index].generation + 1) & 0x7fffffff;
  free_slots_.push_back(index);
}

void EventLoop::again(Token token) { again_.push_back(token); }

Watched* EventLoop::find(Token token) const {
  const auto index = static_cast<std::uint32_t>(token);
  if (index >= slots_.size() || slots_[index].generation != token >> 32) return nullptr;
  return slots_[index].watched;
}

void EventLoop::deliver(const platform::PollEvent& event) {
  if (event.token == kDoorbellToken) {
    doorbell_.drain();
    return;
  }
  if (Watched* w = find(event.token)) w->on_event(event);
}

void EventLoop::run_commands() {
  if (!posted_.exchange(false, std::memory_order_acquire)) return;
  {
    std::lock_guard lock(mutex_);
    running_.swap(inbox_);
  }
  for (auto& command : running_) {
    command();
    acknowledged_.fetch_add(1, std::memory_order_release);
  }
  running_.clear();
}

Duration EventLoop::patience(Instant now, Instant active) const {
  if (!again_.empty() || now - active < spin_) return {};
  return std::clamp(next_tick_ - now, Duration{}, Duration::seconds(60));
}

void EventLoop::run() {
  platform::name_this_thread(name_.c_str());
  std::array<platform::PollEvent, kEventsPerWait> events;
  Instant active{std::numeric_limits<std::int64_t>::min() / 2};
  for (;;) {
    const bool last_round = stopping_.load(std::memory_order_acquire);
    run_commands();
    if (last_round) return;
    const Instant now = platform::now();
    if (now >= next_tick_) {
      next_tick_ = Instant{std::numeric_limits<std::int64_t>::max()};
      wake_at(tick_(now));
    }
    const std::size_t n = poller_.wait(events, patience(now, active));
    // A client may use what a command grants as soon as control has posted it: the command comes before the request.
    run_commands();
    for (std::size_t i = 0; i < n; ++i) deliver(events[i]);
    again_now_.swap(again_);
    for (const Token t : again_now_) deliver({.token = t, .readable = true});
    if ((n != 0 || !again_now_.empty()) && spin_.ns > 0) active = platform::now();
    again_now_.clear();
  }
}

}  // namespace vrampool::service::data
