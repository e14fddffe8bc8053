// The service thread and its poller.
#include "platform/posix/revoke_service.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "platform/poller.h"
#include "platform/process.h"

namespace vrampool::platform {

namespace {

struct Watched {
  RevokeReceiver* receiver = nullptr;
  int socket = -1;
};

class Service {
 public:
  Status start();
  void stop();
  Status watch(Watched wanted);
  void unwatch(Watched unwanted);
  bool idle() const { return watched_.empty(); }

 private:
  void run();
  void dispatch(const PollEvent& event);

  std::mutex mutex_;  // guards watched_; held during dispatch, so that unwatch waits for it
  std::vector<Watched> watched_;
  std::optional<Poller> poller_;
  std::optional<Doorbell> stop_;
  std::thread thread_;
};

Status Service::start() {
  VP_TRY(poller, Poller::create());
  VP_TRY(bell, Doorbell::create());
  poller_.emplace(std::move(poller));
  stop_.emplace(std::move(bell));
  VP_CHECK(poller_->add(stop_->fd(), 0, PollFor::read));
  // The thread inherits a full mask: the program's signal handlers must not run on it.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return {};
}

void Service::stop() {
  stop_->ring();
  thread_.join();
}

Status Service::watch(Watched wanted) {
  const std::lock_guard lock(mutex_);
  poller_->remove(wanted.socket);
  VP_CHECK(poller_->add(wanted.socket, reinterpret_cast<std::uintptr_t>(wanted.receiver), PollFor::read));
  std::erase_if(watched_, [&](const Watched& w) { return w.receiver == wanted.receiver; });
  watched_.push_back(wanted);
  return {};
}

void Service::unwatch(Watched unwanted) {
  const std::lock_guard lock(mutex_);
  poller_->remove(unwanted.socket);
  std::erase_if(watched_, [&](const Watched& w) { return w.receiver == unwanted.receiver; });
}

// An event may have been fetched before its receiver was taken off the list: look it up again.
void Service::dispatch(const PollEvent& event) {
  const std::lock_guard lock(mutex_);
  const auto at = std::find_if(watched_.begin(), watched_.end(), [&](const Watched& w) {
    return reinterpret_cast<std::uintptr_t>(w.receiver) == event.token;
  });
  if (at != watched_.end() && !at->receiver->on_bell()) poller_->remove(at->socket);
}

void Service::run() {
  name_this_thread("vp-revoke");
  std::array<PollEvent, 16> events;
  for (;;) {
    const std::size_t n = poller_->wait(events, Duration{-1});
    for (std::size_t i = 0; i < n; ++i) {
      if (events[i].token == 0) return;
      dispatch(events[i]);
    }
  }
}

std::mutex service_mutex;
Service* service = nullptr;
pid_t service_owner = 0;

}  // namespace

Status watch_revokes(int socket, RevokeReceiver* receiver) {
  const std::lock_guard lock(service_mutex);
  // A forked child has the object but not the thread: it starts its own and leaves the parent's alone.
  if (service == nullptr || service_owner != ::getpid()) {
    auto made = std::make_unique<Service>();
    VP_CHECK(made->start());
    service = made.release();
    service_owner = ::getpid();
  }
  return service->watch({receiver, socket});
}

void unwatch_revokes(int socket, RevokeReceiver* receiver) {
  const std::lock_guard lock(service_mutex);
  if (service == nullptr || service_owner != ::getpid()) return;
  service->unwatch({receiver, socket});
  if (!service->idle()) return;
  service->stop();
  delete service;
  service = nullptr;
}

}  // namespace vrampool::platform
