#include "client/notifier.h"

#include <algorithm>
#include <cstring>

#include "client/channel.h"
#include "platform/process.h"

namespace vrampool::client {

void LossNote::say(std::string_view text) {
  const std::size_t n = std::min(text.size(), message.size() - 1);
  std::memcpy(message.data(), text.data(), n);
  message[n] = '\0';
}

void Notifier::set(vp_error_callback callback, void* user) {
  const std::lock_guard hold(mutex_);
  callback_ = callback;
  user_ = user;
  if (callback != nullptr && !thread_.joinable() && !stopping_) thread_ = std::thread([this] { run(); });
}

void Notifier::push(const LossNote& note) {
  const std::lock_guard hold(mutex_);
  if (callback_ == nullptr || count_ == ring_.size()) return;
  ring_[(first_ + count_++) % ring_.size()] = note;
  changed_.notify_one();
}

void Notifier::stop() {
  {
    const std::lock_guard hold(mutex_);
    stopping_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void Notifier::run() {
  platform::name_this_thread("vp-errors");
  std::unique_lock hold(mutex_);
  for (;;) {
    changed_.wait(hold, [this] { return stopping_ || count_ > 0; });
    if (stopping_) return;
    const LossNote note = ring_[first_];
    first_ = (first_ + 1) % ring_.size();
    --count_;
    const auto callback = callback_;
    void* const user = user_;
    hold.unlock();
    if (callback != nullptr) {
      const vp_loss loss{sizeof(vp_loss), note.status, note.view, note.offset, note.bytes, note.message.data()};
      const CallbackScope scope;
      callback(&loss, user);
    }
    hold.lock();
  }
}

}  // namespace vrampool::client
