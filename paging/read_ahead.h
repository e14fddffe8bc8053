// Sequential readers: notices that a view walks forward and says how far ahead pages should be asked for.
// A window doubles with every step forward and is forgotten on a jump. After Linux's on-demand read-ahead
// (mm/readahead.c), but per view and with pages revealed on arrival: the first page of each request is held back and
// its fault moves the window on.
//
// Threads: one. Units: pages. Bounded: kReadersMax at a time, the least recently used gives way.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/mark.h"
#include "paging/fetch_machine.h"

namespace vrampool::paging {

inline constexpr std::size_t kReadersMax = 16;
// A reader made of several threads may look back this far without being taken for a jump.
inline constexpr std::uint64_t kLookBackPages = 16;
inline constexpr std::uint64_t kFirstWindowPages = 4;

struct Reader {
  bool used = false;
  ViewNo view{};
  std::uint64_t last = 0;      // the furthest page faulted
  std::uint64_t ahead = 0;     // the next page to ask for
  std::uint64_t target = 0;    // ask up to here
  std::uint64_t revealed = 0;  // pages below were revealed to the view as they came
  std::uint64_t window = 0;
  std::uint64_t turn = 0;  // when it was last heard of

  // Large windows go out as several requests, so that they overlap.
  std::uint32_t request_pages() const {
    const std::uint64_t half = window / 2 == 0 ? 1 : window / 2;
    return static_cast<std::uint32_t>(half < kPagesPerMessageMax ? half : kPagesPerMessageMax);
  }
};

class ReadAhead {
 public:
  explicit ReadAhead(std::uint64_t window_max) : window_max_(window_max) {}

  // A fault of `view` at `page`; pages from `end` on are not the view's.
  Reader& noticed(ViewNo view, std::uint64_t page, std::uint64_t end) {
    for (Reader& r : readers_)
      if (r.used && r.view == view && page + kLookBackPages >= r.last && page <= r.ahead) return step(r, page, end);
    VP_MARK(read_ahead_reset);
    Reader* oldest = &readers_[0];
    for (Reader& r : readers_)
      if (r.turn < oldest->turn) oldest = &r;
    return *oldest = Reader{true, view, page, page + 1, page + 1, 0, 0, ++turn_};
  }
  void forget(ViewNo view) {
    for (Reader& r : readers_)
      if (r.view == view) r = Reader{};
  }
  std::array<Reader, kReadersMax>& readers() { return readers_; }
  const std::array<Reader, kReadersMax>& readers() const { return readers_; }

 private:
  Reader& step(Reader& r, std::uint64_t page, std::uint64_t end) {
    r.turn = ++turn_;
    if (page <= r.last || window_max_ == 0) return r;
    VP_MARK(read_ahead_step);
    r.last = page;
    r.window = std::min(window_max_, r.window == 0 ? kFirstWindowPages : r.window * 2);
    r.target = std::max(r.target, std::min(end, page + r.window));
    return r;
  }
  std::uint64_t window_max_;
  std::uint64_t turn_ = 0;
  std::array<Reader, kReadersMax> readers_{};
};

}  // namespace vrampool::paging
