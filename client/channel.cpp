// The life of a channel: connections come and go, threads take turns at receiving.
#include "client/channel.h"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "platform/clock.h"
#include "platform/process.h"

namespace vrampool::client {

namespace {

thread_local int t_callbacks = 0;

// A leader looks up at least this often: the connection may have been replaced under it.
constexpr Duration kPollMax = Duration::millis(100);

}  // namespace

int Channel::poll_ms(Instant until) {
  const Duration left = std::clamp(until - platform::now(), Duration{}, kPollMax);
  return static_cast<int>((left.ns + 999'999) / 1'000'000);
}

bool in_completion() { return t_callbacks > 0; }
CallbackScope::CallbackScope() { ++t_callbacks; }
CallbackScope::~CallbackScope() { --t_callbacks; }

Channel::Channel(const char* name, std::size_t window, std::function<void()> on_down)
    : name_(name), on_down_(std::move(on_down)), slots_(window) {
  VP_ASSERT(window <= 256);  // a request number keeps its slot in 8 bits
  for (std::size_t i = window; i > 0; --i) free_.push_back(i - 1);
}

Channel::~Channel() { stop(); }

void Channel::start_thread() {
  thread_ = std::thread([this] { run(); });
}

bool Channel::down() const {
  const Lock lock(mutex_);
  return !usable();
}

Status Channel::adopt(UniqueFd fd) {
  Lock lock(mutex_);
  if (stopping_) return error(VP_CANCELLED, "the session is closing");
  transport::StreamOptions options;
  options.send_queue_max = static_cast<std::uint32_t>(slots_.size() + 8);
  options.peer = "the daemon";
  const int raw = fd.get();
  VP_TRY(stream, transport::DataStream::create(std::move(fd), options, *this));
  stream_ = std::move(stream);
  raw_fd_ = raw;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].transfer) send(i);
  }
  changed_.notify_all();
  return {};
}

void Channel::stop() {
  Lock lock(mutex_);
  stopping_ = true;
  for (Request& r : slots_) {
    if (r.transfer) abandon(*r.transfer, VP_CANCELLED, "the session was closed");
  }
  stream_.reset();
  raw_fd_ = -1;
  changed_.notify_all();
  run_completions(lock);
  lock.unlock();
  if (thread_.joinable()) thread_.join();
}

void Channel::run() {
  platform::name_this_thread(name_);
  Lock lock(mutex_);
  while (!stopping_) {
    changed_.wait(lock, [this] { return stopping_ || (asynchronous_ > 0 && !leading_ && usable()); });
    help(lock, platform::now() + kServiceTick, [this] { return stopping_ || asynchronous_ == 0; });
  }
}

void Channel::receive_once(Lock& lock, Instant until) {
  guess_next_answer();
  pollfd p{stream_->fd(), static_cast<short>(stream_->wants_write() ? POLLIN | POLLOUT : POLLIN), 0};
  const int timeout = refused_ > 0 ? static_cast<int>(kAskAgain.as_millis()) : poll_ms(until);
  lock.unlock();
  const int ready = ::poll(&p, 1, timeout);
  lock.lock();
  if (ready == 0 && usable()) resend_refused(refused_);
  if (ready <= 0 || !usable()) return;
  const std::size_t before = in_flight();
  if ((p.revents & POLLOUT) != 0) stream_->on_writable();
  if (usable() && (p.revents & ~POLLOUT) != 0) stream_->on_readable();
  if (in_flight() != before) changed_.notify_all();
  if (in_flight() < before) resend_refused(before - in_flight());
  run_completions(lock);
}

// With one request in flight its answer is what comes next: header, checksums and bytes in one system call.
void Channel::guess_next_answer() {
  const Request& r = slots_[last_sent_];
  if (in_flight() == 1 && r.transfer && !r.into.empty()) stream_->expect(r.header.request, r.into);
}

// One round after another: a completion may end further transfers.
void Channel::run_completions(Lock& lock) {
  while (!completed_.empty()) {
    const auto ready = std::exchange(completed_, {});
    lock.unlock();
    {
      const CallbackScope scope;
      for (const auto& t : ready) t->completion(t->status, t->user);
    }
    lock.lock();
  }
}

bool Channel::wait(Transfer& transfer, Instant until) {
  Lock lock(mutex_);
  return help(lock, until, [&] { return transfer.done; });
}

bool Channel::wait_to_end(Transfer& transfer) {
  Lock lock(mutex_);
  while (!transfer.done && platform::now() < transfer.deadline) {
    help(lock, transfer.deadline, [&] { return transfer.done; });
  }
  return transfer.done;
}

void Channel::give_up(Transfer& transfer, vp_status status, const char* message) {
  Lock lock(mutex_);
  abandon(transfer, status, message);
  changed_.notify_all();
  run_completions(lock);
}

void Channel::expire(Instant now) {
  Lock lock(mutex_);
  for (Request& r : slots_) {
    if (r.transfer && r.transfer->asynchronous && now >= r.transfer->deadline) {
      abandon(*r.transfer, usable() ? VP_TIMEOUT : VP_UNREACHABLE, "the daemon did not answer in time");
    }
  }
  run_completions(lock);
}

}  // namespace vrampool::client
