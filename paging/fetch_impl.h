// FetchMachine's inside. Inputs only change state; pump() alone writes orders, from state, so that a full outbox
// can stop it anywhere and Resume goes on. Internal to paging/*.cpp.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "base/assert.h"
#include "base/mark.h"
#include "paging/fetch_machine.h"
#include "paging/read_ahead.h"
#include "paging/requests.h"

namespace vrampool::paging {

inline constexpr Instant kNever{std::numeric_limits<std::int64_t>::max()};
// Pages looked at by one sweep of one step: keeps a step short on a segment of millions of pages.
inline constexpr std::uint64_t kSweepPagesPerStep = 8192;
// A touched valid page reveals its valid neighbours up to here: one fault instead of many.
inline constexpr std::uint32_t kRevealRunMax = 64;
inline constexpr std::uint32_t kPunchRunMax = 256;

struct ViewState {
  ViewNo no{};
  std::uint64_t first = 0, end = 0;
  OnLoss on_loss{};
};

// A view that faulted and was not answered yet.
struct Waiter {
  ViewNo view{};
  PageIndex page{};
  Instant deadline{};
  Instant retry_at{};
  std::uint32_t corrupt = 0;
  vp_status verdict = VP_OK;  // set: the page will not come
  bool gone = false;
};

struct WantState {
  WantToken token{};
  std::uint64_t first = 0, end = 0;
  std::uint64_t scan = 0;   // everything below is there (or was given up)
  std::uint64_t issue = 0;  // asked for up to here
  Priority priority{};
  Instant retry_at{};
  Instant progress{};
  std::uint32_t corrupt = 0;
  vp_status verdict = VP_OK;  // set: it ends with this
  vp_status status = VP_OK;   // VP_LOST: some pages were passed over
  bool over = false;
};

struct SourceState {
  bool lost = false;
};

class FetchMachine::Impl {
 public:
  explicit Impl(FetchOptions);

  void take(const Input&, Instant now);
  bool pump(Instant now, Outbox&);

  bool lands(RequestNo, PageIndex first, std::uint32_t count);
  Instant next_deadline() const;
  RangeCounts count(PageIndex first, std::uint64_t n) const;
  void refresh_counts();

  FetchOptions options;
  PageTable pages;
  Requests requests;
  FetchCounts counts;
  std::vector<ViewState> views;  // sorted by number
  std::vector<Waiter> waiters;   // in order of arrival
  std::vector<WantState> wants;  // in order of arrival
  bool more = false;             // orders are waiting
  Instant last_step{};

 private:
  // Inputs (fetch_inputs.cpp).
  void on(const AddView&, Instant);
  void on(const DropView&, Instant);
  void on(const Fault&, Instant);
  void on(const Arrived&, Instant);
  void on(const Failed&, Instant);
  void on(const Punched&, Instant);
  void on(const Tick&, Instant) {}
  void on(const Resume&, Instant) {}
  void on(const Evict&, Instant);
  void on(const Pin&, Instant);
  void on(const Unpin&, Instant);
  void on(const Want&, Instant);
  void on(const CancelWant&, Instant);
  void on(const SourceLost&, Instant);
  void on(const SourceBack&, Instant);
  void on(const Heal&, Instant);
  void on(const Adopt&, Instant);
  void on(const Relayout&, Instant);
  void settle(Request&, PageIndex first, std::uint32_t count, bool good, Instant now);
  void tell_corrupt(PageIndex first, std::uint32_t count, Instant now);
  void expire_requests(Instant now);
  Duration patience() const;

  // Orders (fetch_orders.cpp, fetch_waiters.cpp, fetch_wants.cpp, fetch_sweeps.cpp). Each answers false when the
  // outbox is full or its share of a step is used up: there is more.
  bool clean_dead(Outbox&);
  bool clean_page_run(Request&, Outbox&);
  bool reveal_done(Outbox&);
  bool serve_doomed(Instant now, Outbox&);
  vp_status doom(const Waiter&, Instant now) const;
  bool serve_waiters(Instant now, Outbox&);
  bool serve(Waiter&, Instant now, Outbox&);
  bool give_up(Waiter&, const ViewState&, vp_status, Instant now, Outbox&);
  bool serve_poisoned(Waiter&, const ViewState&, Instant now, Outbox&);
  bool reveal_run(Waiter&, const ViewState&, Outbox&);
  bool serve_readers(Instant now, Outbox&);
  bool serve_reader(Reader&, Instant now, Outbox&);
  bool serve_wants(Instant now, Outbox&);
  bool serve_want(WantState&, Instant now, Outbox&);
  bool scan_want(WantState&, Instant now);
  bool issue_want(WantState&, Instant now, Outbox&);
  void end_want(WantState&, vp_status);
  bool heal(Outbox&);
  bool evict(Outbox&);
  bool punch_run(std::uint64_t first, std::uint64_t count, Outbox&);
  // Asks for up to `most` absent pages from `first` on. 0: no slot or no room for the order.
  std::uint32_t fetch(std::uint64_t first, std::uint32_t most, bool for_fault, ViewNo reader, Instant now, Outbox&);
  bool emit(Outbox&, const Order&);

  // Questions.
  PageState state(std::uint64_t page) const { return pages.state(PageIndex{page}); }
  const ViewState* view(ViewNo) const;
  const Extent& extent(std::uint64_t page) const;
  bool lost(SourceNo s) const { return s.value < sources_.size() && sources_[s.value].lost; }
  bool wanted(std::uint64_t page) const;
  std::uint64_t revealed_to(ViewNo, std::uint64_t page) const;
  bool evictable(std::uint64_t page);
  std::uint64_t clip(PageIndex first, std::uint64_t count) const;
  SourceState& source(SourceNo);

  ReadAhead read_ahead_;
  std::vector<SourceState> sources_;
  std::uint64_t evict_left_ = 0;
  std::uint64_t evict_hand_ = 0;
  std::uint64_t evict_seen_ = 0;  // pages the hand passed for this Evict
  std::uint64_t heal_at_ = 0, heal_end_ = 0;
  std::int64_t answer_ns_ = 0;  // smoothed time to an answer
  std::uint32_t timeouts_ = 0;  // in a row: patience doubles with each
};

}  // namespace vrampool::paging
