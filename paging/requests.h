// The requests that are in flight: which pages each one owns, what has landed, and when it is tried again.
//
// Threads: one. Units: pages. Bounded: slots are made once.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/ids.h"
#include "base/limits.h"
#include "base/time.h"
#include "paging/fetch_machine.h"

namespace vrampool::paging {

struct Request {
  enum class Phase : std::uint8_t { free, current, done, dead };
  Phase phase = Phase::free;
  bool for_fault = false;
  RequestNo no{};
  PageIndex first{};
  std::uint32_t count = 0;
  SourceNo source{};
  ViewNo reader{};  // a sequential reader that gets its pages revealed when all are there
  Instant sent{};
  Instant retry_at{};
  std::uint64_t claimed = 0;  // bit per page: its landing was given to an answer
  std::uint64_t settled = 0;  // bit per page: arrived, good or not
  bool told = false;          // dead: the abandon order is out
  std::uint32_t cleaned = 0;  // dead: pages that were taken back already

  bool covers(PageIndex f, std::uint32_t n) const { return n > 0 && f >= first && f.value + n <= first.value + count; }
  std::uint64_t bits(PageIndex f, std::uint32_t n) const {
    const std::uint64_t run = n >= 64 ? ~0ull : (1ull << n) - 1;
    return run << (f.value - first.value);
  }
  bool complete() const { return settled == bits(first, count); }
};
static_assert(kPagesPerMessageMax <= 64, "a request's pages fit one word of bits");

class Requests {
 public:
  Requests(std::uint32_t max, std::uint32_t for_faults, RequestNo first)
      : slots_(max), spare_(for_faults), next_(first) {
    VP_ASSERT(max > 0 && for_faults < max);
  }

  // A slot for a fault, or for anything that may wait; null when there is none.
  Request* take(bool for_fault) {
    if (used_ >= slots_.size() - (for_fault ? 0 : spare_)) return nullptr;
    for (Request& r : slots_)
      if (r.phase == Request::Phase::free) return ++used_, &(r = Request{Request::Phase::current, for_fault, next()});
    return nullptr;
  }
  void give_back(Request& r) {
    r.phase = Request::Phase::free;
    --used_;
  }
  // The current request of that number.
  Request* find(RequestNo no) {
    for (Request& r : slots_)
      if (r.phase == Request::Phase::current && r.no == no) return &r;
    return nullptr;
  }
  // The current request that owns a page.
  Request* owner(PageIndex p) {
    for (Request& r : slots_)
      if (r.phase == Request::Phase::current && r.covers(p, 1)) return &r;
    return nullptr;
  }
  std::vector<Request>& all() { return slots_; }
  const std::vector<Request>& all() const { return slots_; }
  std::uint32_t used() const { return used_; }

 private:
  RequestNo next() { return std::exchange(next_, RequestNo{next_.value + 1}); }
  std::vector<Request> slots_;
  std::uint32_t spare_;
  std::uint32_t used_ = 0;
  RequestNo next_;
};

}  // namespace vrampool::paging
