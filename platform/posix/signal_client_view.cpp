// The client's side of a view on signals: protects pages itself, asks the daemon through the fault ring.
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <new>

#include "platform/clock.h"
#include "platform/futex.h"
#include "platform/posix/fault_handler.h"
#include "platform/posix/fault_ring.h"
#include "platform/posix/memory_range.h"
#include "platform/posix/native_source.h"
#include "platform/posix/poison_page.h"
#include "platform/posix/revoke_service.h"
#include "platform/shared_object.h"
#include "platform/unix_socket.h"

namespace vrampool::platform {

namespace {

// A waiting thread looks at the world again this often: a poisoned range, a passed deadline, a view that closes.
constexpr Duration kWaitSlice = Duration::millis(50);

// While it lives no signal handler runs on this thread: one that wanted the page we have locked would spin for ever.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

int rights_of(PageAccess access) {
  if (access == PageAccess::none) return PROT_NONE;
  return access == PageAccess::read ? PROT_READ : PROT_READ | PROT_WRITE;
}

class SignalClientView final : public ClientView, public FaultReceiver, public RevokeReceiver {
 public:
  SignalClientView(const ClientViewOptions& options, std::byte* base, SharedObject ring_object)
      : ClientView(base, options.bytes, options.access),
        granule_(fault_granule_bytes()),
        deadline_(options.fault_deadline),
        ring_object_(std::move(ring_object)),
        ring_(new (ring_object_.memory().data()) FaultRing{}),
        states_(ring_->page_states()) {
    ring_->magic = kFaultRingMagic;
    ring_->version = kFaultRingVersion;
    ring_->pages = options.bytes / granule_;
    ring_->granule = granule_;
  }
  ~SignalClientView() override;

  FaultSourceKind kind() const override { return FaultSourceKind::posix; }
  Status map_cache(std::uint64_t view_offset, int fd, std::uint64_t object_offset, std::uint64_t bytes) override;
  Result<AttachDescriptors> attach_descriptors() override;
  Status poison_here(std::uint64_t view_offset, std::uint64_t bytes) override;
  std::uint64_t pages_poisoned() const override { return pages_poisoned_.load(); }
  bool serves_system_calls() const override { return false; }

  bool on_fault(std::uintptr_t address, bool write) override;
  bool on_bell() override;

 private:
  enum class Waited { answered, give_up };
  std::byte* address_of(std::uint64_t page) const { return base_ + page * granule_; }
  bool protect_as_granted(std::uint64_t page, PageAccess wanted);
  bool poison(std::uint64_t page);
  bool must_poison(std::uint64_t page, std::int64_t began_ns) const;
  FaultSlot& claim_slot();
  Waited ask_daemon(std::uint64_t page, PageAccess wanted, std::int64_t began_ns);
  void apply(std::uint64_t first, std::uint64_t pages);
  void apply_next_revoke();

  std::uint64_t granule_;
  Duration deadline_;
  SharedObject ring_object_;
  FaultRing* ring_;
  std::atomic<std::uint32_t>* states_;
  UniqueFd bell_;  // its number never changes once it is there: signal handlers use it
  PoisonedRanges poisoned_;
  std::atomic<std::uint64_t> pages_poisoned_{0};
  std::atomic<bool> closing_{false};
};

SignalClientView::~SignalClientView() {
  remove_fault_ranges(this);
  closing_.store(true);
  wait_until_unused(*this);
  if (bell_) unwatch_revokes(bell_.get(), this);
  release_range(base_, bytes_);
}

Status SignalClientView::map_cache(std::uint64_t view_offset, int fd, std::uint64_t object_offset,
                                   std::uint64_t bytes) {
  VP_CHECK(check_part(view_offset, object_offset, bytes));
  VP_CHECK(install_fault_handler());
  std::byte* at = base_ + view_offset;
  if (::mmap(at, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, fd, static_cast<off_t>(object_offset)) == MAP_FAILED)
    return error_errno(errno, "mapping a cache object into a view");
  VP_CHECK(keep_private(at, bytes));
  forbid_huge_pages(at, bytes);
  const auto from = reinterpret_cast<std::uintptr_t>(at);
  add_fault_range(from, from + bytes, this);
  return {};
}

Result<AttachDescriptors> SignalClientView::attach_descriptors() {
  VP_TRY(ends, socket_pair());
  if (!bell_) bell_ = std::move(ends.first);
  // The old socket goes in the same step as the new one takes its number.
  else if (::dup2(ends.first.get(), bell_.get()) < 0 || ::fcntl(bell_.get(), F_SETFD, FD_CLOEXEC) < 0)
    return error_errno(errno, "renewing the doorbell of a view");
  VP_CHECK(watch_revokes(bell_.get(), this));
  // A byte for the new daemon: threads that wait since the old one's days will not ring again.
  ring_->daemon_rung.store(0);
  ring_bell(ring_->daemon_rung, bell_.get());
  VP_TRY(ring, ring_object_.read_write_descriptor());
  AttachDescriptors descriptors;
  descriptors.push_back(std::move(ring));
  descriptors.push_back(std::move(ends.second));
  return descriptors;
}

Status SignalClientView::poison_here(std::uint64_t view_offset, std::uint64_t bytes) {
  VP_ASSERT(holds(view_offset, bytes));
  if (!poisoned_.add(view_offset, bytes))
    return error(VP_BUSY, "too many poisoned ranges in one view; poison it whole");
  for (FaultSlot& slot : ring_->slots) futex_wake_all(slot.state);
  return {};
}

// ---- inside the signal handler ----

bool SignalClientView::on_fault(std::uintptr_t address, bool write) {
  if (write && access_ == PageAccess::read) return false;  // the program writes to what it may only read
  const std::uint64_t page = (address - reinterpret_cast<std::uintptr_t>(base_)) / granule_;
  const PageAccess wanted = write ? PageAccess::write : PageAccess::read;
  const std::int64_t began = monotonic_ns();
  for (;;) {
    if (protect_as_granted(page, wanted)) return true;
    if (closing_.load()) return true;  // the range is not ours any more: the next try is an ordinary fault
    if (must_poison(page, began)) return poison(page);
    if (ask_daemon(page, wanted, began) == Waited::give_up && must_poison(page, began)) return poison(page);
  }
}

// True when the page now has at least the wanted access. The state is read under the lock, after any revoke that came
// between.
bool SignalClientView::protect_as_granted(std::uint64_t page, PageAccess wanted) {
  std::atomic<std::uint32_t>& word = states_[page];
  if (granted_access(word.load(std::memory_order_acquire)) < wanted) return false;
  const SignalsBlocked quiet;
  lock_page(word);
  const PageAccess granted = granted_access(word.load(std::memory_order_acquire));
  const bool enough = granted >= wanted && ::mprotect(address_of(page), granule_, rights_of(granted)) == 0;
  const bool no_room = granted >= wanted && !enough;
  unlock_page(word);
  if (no_room) {
    static constexpr char kText[] =
        "vrampool: a page cannot be protected: too many mappings; raise vm.max_map_count or map resident\n";
    [[maybe_unused]] const ssize_t n = ::write(2, kText, sizeof kText - 1);
    ::abort();
  }
  return enough;
}

bool SignalClientView::must_poison(std::uint64_t page, std::int64_t began_ns) const {
  return poisoned_.holds(page * granule_) || (deadline_.ns > 0 && monotonic_ns() - began_ns > deadline_.ns);
}

bool SignalClientView::poison(std::uint64_t page) {
  const SignalsBlocked quiet;
  lock_page(states_[page]);
  const bool done = poison_pages(address_of(page), granule_, access_);
  unlock_page(states_[page]);
  if (done) pages_poisoned_.fetch_add(1);
  return done;
}

FaultSlot& SignalClientView::claim_slot() {
  for (;;) {
    for (FaultSlot& slot : ring_->slots) {
      auto expected = static_cast<std::uint32_t>(SlotState::free);
      if (slot.state.compare_exchange_strong(expected, static_cast<std::uint32_t>(SlotState::claimed))) return slot;
    }
    ::sched_yield();
  }
}

// Posts the fault and waits for an answer, a slice, or a reason to give up; the caller looks at the page again in any
// case.
SignalClientView::Waited SignalClientView::ask_daemon(std::uint64_t page, PageAccess wanted, std::int64_t began_ns) {
  FaultSlot& slot = claim_slot();
  slot.page.store(page, std::memory_order_relaxed);
  slot.wanted.store(static_cast<std::uint32_t>(wanted), std::memory_order_relaxed);
  slot.state.store(static_cast<std::uint32_t>(SlotState::posted));
  Waited how = Waited::answered;
  ring_bell(ring_->daemon_rung, bell_.get());
  for (;;) {
    const std::uint32_t seen = slot.state.load();
    if (seen != static_cast<std::uint32_t>(SlotState::posted) && seen != static_cast<std::uint32_t>(SlotState::taken))
      break;
    if (closing_.load() || must_poison(page, began_ns)) how = Waited::give_up;
    if (how == Waited::give_up) break;
    futex_wait(slot.state, seen, kWaitSlice);
  }
  slot.state.store(static_cast<std::uint32_t>(SlotState::free));
  return how;
}

// ---- on the service thread ----

bool SignalClientView::on_bell() {
  const bool open = drain_bell(ring_->client_rung, bell_.get());
  while (ring_->revokes_applied.load() != ring_->revokes_posted.load()) apply_next_revoke();
  return open;
}

void SignalClientView::apply_next_revoke() {
  const std::uint32_t n = ring_->revokes_applied.load();
  const RevokeEntry& entry = ring_->revokes[n % kRevokesPendingMax];
  const std::uint64_t first = entry.page.load();
  const std::uint64_t pages = entry.pages.load();
  if (first <= ring_->pages && pages <= ring_->pages - first) apply(first, pages);
  ring_->revokes_applied.store(n + 1);
  ring_bell(ring_->daemon_rung, bell_.get());
}

// Gives each page the protection that its word says, under its lock: neighbours of one access in one call.
void SignalClientView::apply(std::uint64_t first, std::uint64_t pages) {
  const std::uint64_t end = first + pages;
  while (first < end) {
    std::uint64_t to = first;
    lock_page(states_[to]);
    const PageAccess access = granted_access(states_[to].load());
    for (++to; to < end; ++to) {
      lock_page(states_[to]);
      if (granted_access(states_[to].load()) == access) continue;
      unlock_page(states_[to]);
      break;
    }
    ::mprotect(address_of(first), (to - first) * granule_, rights_of(access));
    for (std::uint64_t p = first; p < to; ++p) unlock_page(states_[p]);
    first = to;
  }
}

}  // namespace

Result<std::unique_ptr<ClientView>> signal_client_view(const ClientViewOptions& options, std::byte* base) {
  VP_CHECK(install_fault_handler());
  VP_TRY(ring, create_unnamed_object("vp-fault-ring", fault_ring_bytes(options.bytes / fault_granule_bytes())));
  VP_CHECK(ring.map(MapUse::cache));
  return std::unique_ptr<ClientView>(std::make_unique<SignalClientView>(options, base, std::move(ring)));
}

}  // namespace vrampool::platform
