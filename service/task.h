// Coroutines of the control thread: Task<T> is work that may wait, Reply<T> is one answer that comes later.
//
// Threads: control thread only; other threads post to the loop. Ownership: whoever holds a Task owns its frame;
// destroying it cancels the work at the point where it waits.
#pragma once

#include <coroutine>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "base/assert.h"

namespace vrampool::service {

namespace detail {
struct PromiseBase {
  std::coroutine_handle<> next;    // who awaits this task
  std::function<void()> finished;  // for a task nobody awaits

  struct Final {
    bool await_ready() noexcept { return false; }
    template <class P>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<P> self) noexcept {
      PromiseBase& promise = self.promise();
      if (promise.finished) promise.finished();
      return promise.next ? promise.next : std::noop_coroutine();
    }
    void await_resume() noexcept {}
  };
  std::suspend_always initial_suspend() noexcept { return {}; }
  Final final_suspend() noexcept { return {}; }
  [[noreturn]] void unhandled_exception() { std::terminate(); }
};

template <class T>
struct Promise;
}  // namespace detail

// Starts when awaited (or spawned on the Loop).
template <class T = void>
class [[nodiscard]] Task {
 public:
  using promise_type = detail::Promise<T>;
  using Handle = std::coroutine_handle<promise_type>;
  Task() = default;
  explicit Task(Handle handle) : handle_(handle) {}
  Task(Task&& o) noexcept : handle_(std::exchange(o.handle_, {})) {}
  Task& operator=(Task&& o) noexcept {
    if (this != &o) destroy();
    if (this != &o) handle_ = std::exchange(o.handle_, {});
    return *this;
  }
  ~Task() { destroy(); }

  bool await_ready() const noexcept { return false; }
  Handle await_suspend(std::coroutine_handle<> next) noexcept {
    handle_.promise().next = next;
    return handle_;
  }
  T await_resume() { return handle_.promise().take(); }

  // For the Loop: runs until the first wait; `finished` is called at the end.
  void start(std::function<void()> finished) {
    handle_.promise().finished = std::move(finished);
    handle_.resume();
  }

 private:
  void destroy() {
    if (handle_) handle_.destroy();
    handle_ = {};
  }
  Handle handle_;
};

namespace detail {
template <class T>
struct Promise : PromiseBase {
  std::optional<T> value;
  Task<T> get_return_object() { return Task<T>(std::coroutine_handle<Promise>::from_promise(*this)); }
  void return_value(T v) { value.emplace(std::move(v)); }
  T take() {
    VP_ASSERT(value);
    return std::move(*value);
  }
};
template <>
struct Promise<void> : PromiseBase {
  Task<void> get_return_object() { return Task<void>(std::coroutine_handle<Promise>::from_promise(*this)); }
  void return_void() {}
  void take() {}
};
}  // namespace detail

// One answer; the first set() wins, so a deadline is only another setter. The waiter goes on through `post`, never
// inside set(): whoever sets may be iterating over what the waiter changes.
template <class T>
class Reply {
 public:
  explicit Reply(std::function<void(std::function<void()>)> post) : state_(std::make_shared<State>()) {
    state_->post = std::move(post);
  }

  void set(T value) const {
    if (state_->value) return;
    state_->value.emplace(std::move(value));
    state_->post([state = state_] {
      if (auto waiter = std::exchange(state->waiter, {})) waiter.resume();
    });
  }
  bool is_set() const { return state_->value.has_value(); }

  struct Awaiter {
    std::shared_ptr<typename Reply::State> state;
    explicit Awaiter(std::shared_ptr<typename Reply::State> s) : state(std::move(s)) {}
    Awaiter(const Awaiter&) = delete;
    Awaiter& operator=(const Awaiter&) = delete;
    ~Awaiter() { state->waiter = {}; }
    bool await_ready() const noexcept { return false; }
    bool await_suspend(std::coroutine_handle<> handle) noexcept {
      if (state->value) return false;
      state->waiter = handle;
      return true;
    }
    T await_resume() { return std::move(*state->value); }
  };
  Awaiter operator co_await() const { return Awaiter(state_); }

 private:
  struct State {
    std::optional<T> value;
    std::coroutine_handle<> waiter;
    std::function<void(std::function<void()>)> post;
  };
  std::shared_ptr<State> state_;
};

}  // namespace vrampool::service
