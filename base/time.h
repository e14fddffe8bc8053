// Clock values as data. Pure rooms take `Instant now` as an argument and never read a clock.
#pragma once

#include <compare>
#include <cstdint>

namespace vrampool {

// A span of time. Units: nanoseconds.
struct Duration {
  std::int64_t ns = 0;
  constexpr auto operator<=>(const Duration&) const = default;
  static constexpr Duration millis(std::int64_t v) { return {v * 1'000'000}; }
  static constexpr Duration micros(std::int64_t v) { return {v * 1'000}; }
  static constexpr Duration seconds(std::int64_t v) { return {v * 1'000'000'000}; }
  constexpr std::int64_t as_millis() const { return ns / 1'000'000; }
  constexpr double as_seconds() const { return static_cast<double>(ns) * 1e-9; }
  constexpr Duration operator+(Duration o) const { return {ns + o.ns}; }
  constexpr Duration operator-(Duration o) const { return {ns - o.ns}; }
  constexpr Duration operator*(std::int64_t f) const { return {ns * f}; }
  constexpr Duration operator/(std::int64_t d) const { return {ns / d}; }
};

// A point on a clock that runs through suspend (CLOCK_BOOTTIME, mach_continuous_time).
struct Instant {
  std::int64_t ns = 0;
  constexpr auto operator<=>(const Instant&) const = default;
  constexpr Instant operator+(Duration d) const { return {ns + d.ns}; }
  constexpr Instant operator-(Duration d) const { return {ns - d.ns}; }
  constexpr Duration operator-(Instant o) const { return {ns - o.ns}; }
};

}  // namespace vrampool
