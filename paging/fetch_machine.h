// FetchMachine: which pages of one cache object are there, and what to do so that a wanted page comes.
// A pure machine: step(input, now, out). Page bytes, clocks, sockets and descriptors stay outside.
//
// States of a page:   absent -> filling -> valid -> evicting -> absent,  and  poisoned.
// Rules it keeps, whatever arrives in whatever order:
//   - only a valid page is revealed (poisoned ones as poison, to views that chose so);
//   - a filling page belongs to exactly one current request; only that request's answer makes it valid, once;
//   - only a valid page that is not pinned is evicted (poisoned pages are healed regardless); its state changes before
//     the punch order leaves;
//   - every wait of a view ends: revealed, poisoned, failed, or (on_loss = wait) when the source is back or the
//     view goes.
//
// Who may write where (landing): an answer's bytes may be written into the object only while its request is
// current: ask lands() when the header arrives; if not, the body goes to scratch. lands() says yes once per page and
// request, so a doubled answer never lands beside the first. When a request stops being current while its answer is
// being received, the machine orders `abandon`; the owner diverts the rest (DataStream::divert) before it carries out
// any later order. So late, double or damaged bytes never reach a page that is valid or that another request owns.
// Give arrived() only after the crc of the landed bytes was checked.
//
// Orders are carried out in the order given. fetch and punch may finish later (Arrived/Failed, Punched); all others
// are done on the spot. The outbox is bounded: when step() answers `more`, empty the outbox and step(Resume{}).
//
// Threads: one. Errors: none; nonsense from outside is ignored and counted. Units: pages.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "base/fixed_vector.h"
#include "base/ids.h"
#include "base/limits.h"
#include "base/time.h"
#include "paging/page_table.h"
#include "vrampool/status.h"

namespace vrampool::paging {

using ViewNo = Number<struct ViewNoTag, std::uint64_t>;
using WantToken = Number<struct WantTokenTag, std::uint64_t>;
// The owner's name for "where these pages come from": usually an index into its list of peers.
using SourceNo = Number<struct SourceNoTag, std::uint16_t>;

enum class OnLoss : std::uint8_t { poison = 0, wait = 1, abort = 2 };

// Pages [first, first + count) come from `source`; a fetch never crosses an extent's end.
struct Extent {
  PageIndex first{};
  std::uint64_t count = 0;
  SourceNo source{};
};

struct FetchOptions {
  std::uint64_t pages = 0;
  std::vector<Extent> extents;  // sorted, without gaps, covering `pages`
  RequestNo first_request{1};   // numbers count up from here; give each machine its own high bits
  Duration fault_deadline = Duration::millis(kFaultDeadlineMs);
  Duration retry_every = Duration::millis(500);
  std::uint32_t requests_max = 32;           // in flight, all kinds
  std::uint32_t requests_for_faults = 8;     // of these kept free for faults
  std::uint32_t read_ahead_pages_max = 512;  // window ahead of a sequential reader
  std::uint32_t waiters_max = 4096;
  std::uint32_t wants_max = 256;
  std::uint32_t views_max = 4096;
  std::uint32_t corrupt_max = 3;  // damaged answers in a row before a page counts as lost
};

// ---- inputs ----
// View numbers are not 0.
struct AddView {
  ViewNo view{};
  PageIndex first{};
  std::uint64_t count = 0;
  OnLoss on_loss = OnLoss::poison;
};
struct DropView {
  ViewNo view{};
};
// REQUIRES: can_take_fault(). A fault of an unknown view is ignored.
struct Fault {
  ViewNo view{};
  PageIndex page{};
};
enum class Verdict : std::uint8_t { good, corrupt };
// These pages of `request` have landed; their crc was checked. May come in parts; what no longer fits is ignored.
struct Arrived {
  RequestNo request{};
  PageIndex first{};
  std::uint32_t count = 0;
  Verdict verdict = Verdict::good;
};
// The rest of `request` will not come. NOT_FOUND, STALE, DENIED, LOST end the wait; others are tried again.
struct Failed {
  RequestNo request{};
  vp_status status = VP_FAILED;
};
struct Punched {
  PageIndex first{};
  std::uint32_t count = 0;
};
struct Tick {};
struct Resume {};
// Make room: punch about `count` pages, least recently faulted first (second chance).
struct Evict {
  std::uint64_t count = 0;
};
struct Pin {
  PageIndex first{};
  std::uint64_t count = 0;
};
struct Unpin {
  PageIndex first{};
  std::uint64_t count = 0;
};
enum class Priority : std::uint8_t { prefetch = 0, resident = 1 };
// Bring [first, first + count); want_done(token) follows. resident: pinned as it arrives (Unpin it later), before
// prefetches. REQUIRES: can_take_want().
struct Want {
  WantToken token{};
  PageIndex first{};
  std::uint64_t count = 0;
  Priority priority = Priority::prefetch;
};
struct CancelWant {
  WantToken token{};
};
struct SourceLost {
  SourceNo source{};
};
struct SourceBack {
  SourceNo source{};
};
// Try poisoned pages of a source that was never lost again.
struct Heal {
  PageIndex first{};
  std::uint64_t count = 0;
};
// After a restart: bit i of `valid` says that page first + i holds checked bytes. The owner punches all others first
// (bytes of a fetch that was cut off, poison).
struct Adopt {
  PageIndex first{};
  std::span<const std::uint64_t> valid;
};
// Bytes moved to other hosts (a newer layout). Sources keep their lost/back state by number.
struct Relayout {
  std::vector<Extent> extents;
};

using Input = std::variant<AddView, DropView, Fault, Arrived, Failed, Punched, Tick, Resume, Evict, Pin, Unpin, Want,
                           CancelWant, SourceLost, SourceBack, Heal, Adopt, Relayout>;

// ---- orders ----
enum class OrderKind : std::uint8_t {
  fetch,      // ask `source` for [first, count) as `request`
  abandon,    // `request` is not current any more: divert its bytes, forget it
  reveal,     // CONTINUE [first, count) in `view` and wake it (already clipped to the view)
  punch,      // give [first, count) back to the system, wake waiters there, then Punched
  poison,     // fill [first, count) with 0xFF through the alias; reveals follow
  fail,       // `view` chose abort and lost `first`: tell its client `status`
  want_done,  // the want `token` ended with `status`
  lost,       // pages [first, count) were lost to `view` with `status`: the sticky error (poison only)
};
struct Order {
  OrderKind kind = OrderKind::fetch;
  PageIndex first{};
  std::uint32_t count = 0;
  SourceNo source{};
  vp_status status = VP_OK;
  RequestNo request{};
  ViewNo view{};
  WantToken token{};
};
inline constexpr std::size_t kOrdersPerStepMax = 64;
using Outbox = FixedVector<Order, kOrdersPerStepMax>;

struct FetchCounts {
  std::uint64_t valid = 0, filling = 0, evicting = 0, poisoned = 0, pinned = 0;
  std::uint64_t faults = 0, fetched = 0, evicted = 0, retries = 0, corrupt = 0, late = 0, poisonings = 0;
  std::uint64_t requests = 0, waiters = 0, wants = 0;
};
struct RangeCounts {
  std::uint64_t valid = 0, filling = 0, poisoned = 0, pinned = 0;
};

class FetchMachine {
 public:
  class Impl;  // the inside; only paging/*.cpp know it
  // Takes all memory here except page states, which cost nothing before a chunk is first touched.
  explicit FetchMachine(FetchOptions);
  ~FetchMachine();

  // Total: any input in any state. Appends to `out`; true: more orders are waiting, empty `out` and Resume.
  bool step(const Input&, Instant now, Outbox& out);

  // True if the body of an answer to `request` for [first, count) may land in the object. Claims these pages: a second
  // copy of the same answer is told no and goes to scratch.
  bool lands(RequestNo request, PageIndex first, std::uint32_t count);
  bool can_take_fault() const;
  bool can_take_want() const;
  // The next moment at which a Tick can change something (Instant max: never).
  Instant next_deadline() const;

  PageState inspect(PageIndex) const;
  RangeCounts count(PageIndex first, std::uint64_t count) const;
  const FetchCounts& counts() const;
  std::uint64_t pages() const;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace vrampool::paging
