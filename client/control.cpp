#include "client/control.h"

#include <chrono>

#include "platform/clock.h"

namespace vrampool::client {

namespace {

Error closed_error() { return error(VP_CANCELLED, "the session was closed"); }
std::chrono::milliseconds millis(Duration d) { return std::chrono::milliseconds(d.as_millis()); }

}  // namespace

Result<Envelope> Control::call(wire::LocalBodyUnion body, const CallOptions& options) {
  wire::LocalMessageT message;
  message.descriptors = static_cast<std::uint8_t>(options.descriptors.size());
  message.body = std::move(body);
  {
    const Lock lock(mutex_);
    message.call = ++calls_;
  }
  const std::vector<std::byte> request = Link::frame_of(message);
  const Instant give_up = platform::now() + options.away;
  for (;;) {
    bool lost = false;
    auto answer = ask_once(request, message.call, options, lost);
    if (!lost) return answer;
    if (!options.repeatable) {
      return error(VP_UNKNOWN_OUTCOME, "the daemon went away during the call: look whether it happened");
    }
    if (platform::now() >= give_up) return error(VP_UNREACHABLE, "the daemon went away again and again");
  }
}

Status Control::wait_connected(Lock& lock, Duration away) {
  const bool there = changed_.wait_for(lock, millis(away), [this] { return closed_ || link_ != nullptr; });
  if (closed_) return closed_error();
  if (!there) return error(VP_UNREACHABLE, "the daemon is away and did not come back: is vrampoold running?");
  return {};
}

Result<Envelope> Control::ask_once(const std::vector<std::byte>& request, std::uint64_t call,
                                   const CallOptions& options, bool& lost) {
  Waiter waiter;
  Lock lock(mutex_);
  VP_CHECK(wait_connected(lock, options.away));
  const std::shared_ptr<Link> link = link_;
  waiting_[call] = &waiter;
  lock.unlock();
  Status sent;
  {
    const Lock one_sender(sending_);
    sent = link->send_frame(request, options.descriptors, options.away);
  }
  lock.lock();
  if (sent) changed_.wait_for(lock, millis(options.answer), [&] { return waiter.done || waiter.lost || closed_; });
  waiting_.erase(call);
  if (waiter.done) return std::move(waiter.answer);
  if (closed_) return closed_error();
  lost = waiter.lost || (!sent && sent.error().code == VP_UNREACHABLE);
  if (lost && !waiter.lost) changed_.wait_for(lock, millis(kReconnectEvery), [&] { return link_ != link; });
  return error(VP_TIMEOUT, "the daemon did not answer in time");
}

void Control::connected(std::unique_ptr<Link> link, wire::AttachedT attached) {
  const Lock lock(mutex_);
  raw_fd_ = link->fd();
  link_ = std::move(link);
  attached_ = std::move(attached);
  changed_.notify_all();
}

void Control::lost() {
  const Lock lock(mutex_);
  raw_fd_ = -1;
  link_.reset();
  for (auto& [call, waiter] : waiting_) waiter->lost = true;
  changed_.notify_all();
}

void Control::close() {
  const Lock lock(mutex_);
  closed_ = true;
  raw_fd_ = -1;
  link_.reset();
  changed_.notify_all();
}

wire::AttachedT Control::attached() const {
  const Lock lock(mutex_);
  return attached_;
}

Result<std::vector<Envelope>> Control::receive() {
  std::vector<Envelope> unasked;
  Lock lock(mutex_);
  const std::shared_ptr<Link> link = link_;
  lock.unlock();
  while (link != nullptr) {
    auto message = link->receive(Duration{});
    if (!message && message.error().code == VP_TIMEOUT) break;
    if (!message) return message.take_error();
    if (message->call == 0)
      unasked.push_back(std::move(*message));
    else
      answered(std::move(*message));
  }
  return unasked;
}

void Control::answered(Envelope answer) {
  const Lock lock(mutex_);
  const auto it = waiting_.find(answer.call);
  if (it == waiting_.end()) return;  // its caller gave up
  it->second->answer = std::move(answer);
  it->second->done = true;
  changed_.notify_all();
}

}  // namespace vrampool::client
