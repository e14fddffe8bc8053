// The event loop over Boost.Asio; one of the few files that see its headers.
#include "service/loop.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <list>
#include <map>

namespace vrampool::service {

namespace asio = boost::asio;
using boost::system::error_code;

struct Loop::Body {
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> guard{context.get_executor()};
  std::map<std::uint64_t, std::unique_ptr<asio::steady_timer>> timers;
  std::uint64_t next_timer = 1;
  std::list<Task<>> tasks;
};

Loop::Loop() : body_(std::make_unique<Body>()) {}
Loop::~Loop() { body_->tasks.clear(); }

void Loop::run() { body_->context.run(); }
void Loop::stop() { body_->context.stop(); }
void Loop::post(std::function<void()> fn) { asio::post(body_->context, std::move(fn)); }
asio::io_context& Loop::context() { return body_->context; }

std::function<void(std::function<void()>)> Loop::poster() {
  return [this](std::function<void()> fn) { post(std::move(fn)); };
}

std::uint64_t Loop::after(Duration delay, std::function<void()> fn) {
  const std::uint64_t id = body_->next_timer++;
  auto timer = std::make_unique<asio::steady_timer>(body_->context, std::chrono::nanoseconds(delay.ns));
  timer->async_wait([this, id, run = std::move(fn)](error_code failure) {
    if (failure || body_->timers.erase(id) == 0) return;
    run();
  });
  body_->timers.emplace(id, std::move(timer));
  return id;
}

void Loop::forget(std::uint64_t timer) { body_->timers.erase(timer); }

void Loop::spawn(Task<> task) {
  const auto at = body_->tasks.insert(body_->tasks.end(), std::move(task));
  // Erased later: the frame must not be destroyed while it is still running its end.
  at->start([this, at] { post([this, at] { body_->tasks.erase(at); }); });
}

void Loop::drop_tasks() { body_->tasks.clear(); }
std::size_t Loop::running_tasks() const { return body_->tasks.size(); }

Task<> Loop::sleep(Duration delay) {
  Reply<bool> done = reply<bool>();
  const auto timer = after(delay, [done] { done.set(true); });
  co_await done;
  forget(timer);
}

namespace {

class AsioWatch final : public Loop::Watch {
 public:
  AsioWatch(asio::io_context& context, int fd, std::function<void()> readable, std::function<void()> writable)
      : state_(std::make_shared<State>(context, fd, std::move(readable), std::move(writable))) {
    wait_read(state_);
  }
  ~AsioWatch() override {
    state_->open = false;
    state_->descriptor.release();  // cancels; the descriptor itself is the caller's
  }
  void want_write(bool on) override {
    state_->want_write = on;
    if (on && !state_->waiting_write) wait_write(state_);
  }

 private:
  struct State {
    State(asio::io_context& context, int fd, std::function<void()> r, std::function<void()> w)
        : descriptor(context, fd), readable(std::move(r)), writable(std::move(w)) {}
    asio::posix::stream_descriptor descriptor;
    std::function<void()> readable, writable;
    bool open = true, want_write = false, waiting_write = false;
  };
  static void wait_read(const std::shared_ptr<State>& s) {
    s->descriptor.async_wait(asio::posix::stream_descriptor::wait_read, [s](error_code failure) {
      if (failure || !s->open) return;
      s->readable();
      if (s->open) wait_read(s);
    });
  }
  static void wait_write(const std::shared_ptr<State>& s) {
    s->waiting_write = true;
    s->descriptor.async_wait(asio::posix::stream_descriptor::wait_write, [s](error_code failure) {
      s->waiting_write = false;
      if (failure || !s->open || !s->want_write) return;
      s->writable();
      if (s->open && s->want_write) wait_write(s);
    });
  }
  std::shared_ptr<State> state_;
};

}  // namespace

std::unique_ptr<Loop::Watch> Loop::watch(int fd, std::function<void()> readable, std::function<void()> writable) {
  return std::make_unique<AsioWatch>(body_->context, fd, std::move(readable), std::move(writable));
}

}  // namespace vrampool::service
