// Result<T>: a value, or an Error that a caller can meet and act on. Bugs assert instead.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/assert.h"
#include "vrampool/status.h"

namespace vrampool {

// One line for a person: what happened, to what, what to do; lower case, no trailing dot.
struct Error {
  vp_status code = VP_FAILED;
  std::string message;
};

template <class... Args>
Error error(vp_status code, fmt::format_string<Args...> text, Args&&... args) {
  return Error{code, fmt::format(text, std::forward<Args>(args)...)};
}

// "<what>: <errno as text>" with the status that fits the errno.
Error error_errno(int errno_value, std::string what);

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}          // NOLINT(google-explicit-constructor)
  Result(Error failure) : state_(std::in_place_index<1>, std::move(failure)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & {
    VP_ASSERT(ok());
    return std::get<0>(state_);
  }
  const T& value() const& {
    VP_ASSERT(ok());
    return std::get<0>(state_);
  }
  T&& value() && {
    VP_ASSERT(ok());
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Error& error() const {
    VP_ASSERT(!ok());
    return std::get<1>(state_);
  }
  Error&& take_error() {
    VP_ASSERT(!ok());
    return std::get<1>(std::move(state_));
  }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error failure) : failure_(std::move(failure)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return !failure_; }
  explicit operator bool() const { return ok(); }
  const Error& error() const {
    VP_ASSERT(!ok());
    return *failure_;
  }
  Error&& take_error() {
    VP_ASSERT(!ok());
    return std::move(*failure_);
  }

 private:
  std::optional<Error> failure_;
};

using Status = Result<void>;

}  // namespace vrampool

// Return the error of `expr` from the enclosing function, or bind its value to `name`.
#define VP_TRY(name, expr)                                 \
  auto name##_result_ = (expr);                            \
  if (!name##_result_) return name##_result_.take_error(); \
  auto& name = *name##_result_
// Return the error of `expr` from the enclosing function.
#define VP_CHECK(expr)                                                      \
  do {                                                                      \
    if (auto vp_check_ = (expr); !vp_check_) return vp_check_.take_error(); \
  } while (false)
