// The control thread's event loop: posted functions, timers, watched descriptors and spawned tasks.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <memory>

#include "base/result.h"
#include "base/time.h"
#include "service/task.h"

namespace boost::asio {
class io_context;
}

namespace vrampool::service {

// Threads: post() from any thread, everything else on the control thread (the one in run()).
class Loop {
 public:
  Loop();
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void run();   // until stop()
  void stop();  // Threads: any
  // Threads: any. After stop() functions are dropped.
  void post(std::function<void()> fn);
  std::function<void(std::function<void()>)> poster();
  // Runs `fn` on the control thread and waits for it. Never from the control thread.
  template <class F>
  auto call(F fn) -> decltype(fn()) {
    std::promise<decltype(fn())> answer;
    auto future = answer.get_future();
    post([&] {
      if constexpr (std::is_void_v<decltype(fn())>)
        fn(), answer.set_value();
      else
        answer.set_value(fn());
    });
    return future.get();
  }

  // A timer that runs once; cancelled by forget() or by its own run. 0 is never an id.
  std::uint64_t after(Duration delay, std::function<void()> fn);
  void forget(std::uint64_t timer);

  // Runs the task; its frame dies when it ends or when the loop drops its tasks.
  void spawn(Task<> task);
  void drop_tasks();
  std::size_t running_tasks() const;

  template <class T>
  Reply<T> reply() {
    return Reply<T>(poster());
  }
  // `answer` or VP_TIMEOUT with "<what>: no answer in ..." after `deadline`.
  template <class T>
  Task<Result<T>> within(Duration deadline, Reply<Result<T>> answer, std::string what) {
    const auto timer = after(deadline, [answer, what, deadline] {
      answer.set(error(VP_TIMEOUT, "{}: no answer within {} s", what, deadline.as_millis() / 1000));
    });
    Result<T> result = co_await answer;
    forget(timer);
    co_return result;
  }
  Task<> sleep(Duration delay);

  // Calls `readable` / `writable` while the descriptor is ready; the descriptor stays the caller's.
  class Watch {
   public:
    virtual ~Watch() = default;
    virtual void want_write(bool on) = 0;
  };
  std::unique_ptr<Watch> watch(int fd, std::function<void()> readable, std::function<void()> writable);

  boost::asio::io_context& context();

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

}  // namespace vrampool::service
