// The daemon's side of a view on signals: reads the fault ring, grants pages, asks the client to give pages back.
#include <algorithm>
#include <array>
#include <bitset>

#include "platform/futex.h"
#include "platform/posix/fault_ring.h"
#include "platform/posix/native_source.h"
#include "platform/shared_object.h"

namespace vrampool::platform {

namespace {

constexpr auto kPosted = static_cast<std::uint32_t>(SlotState::posted);
constexpr auto kTaken = static_cast<std::uint32_t>(SlotState::taken);
constexpr auto kAnswered = static_cast<std::uint32_t>(SlotState::answered);

class SignalViewFaults final : public ViewFaults {
 public:
  SignalViewFaults(SharedObject ring_object, UniqueFd bell, std::uint64_t bytes)
      : ViewFaults(bytes),
        granule_(fault_granule_bytes()),
        pages_(bytes / granule_),
        ring_object_(std::move(ring_object)),
        ring_(reinterpret_cast<FaultRing*>(ring_object_.memory().data())),
        states_(ring_->page_states()),
        bell_(std::move(bell)) {}

  Status take_over();
  FaultSourceKind kind() const override { return FaultSourceKind::posix; }
  int fd() const override { return bell_.get(); }
  std::size_t read_events(std::span<ViewEvent> out) override;
  Revealed reveal(std::uint64_t offset, std::uint64_t bytes, PageAccess access) override;
  RevokeState revoke(std::uint64_t offset, std::uint64_t bytes, PageAccess left) override;
  void wake(std::uint64_t offset, std::uint64_t bytes) override;

 private:
  struct Run {
    std::uint64_t page = 0;
    std::uint64_t pages = 0;
  };
  std::size_t read_revoked(std::span<ViewEvent> out);
  std::size_t read_faults(std::span<ViewEvent> out);
  bool take(std::size_t slot, ViewEvent& event);
  bool lower(Run run, PageAccess left);
  bool is_pending(Run run) const;
  std::uint32_t pending() const { return posted_ - applied_; }
  ViewEvent gone() const { return {ViewEvent::Kind::gone, false, 0, bytes_}; }

  std::uint64_t granule_;
  std::uint64_t pages_;
  SharedObject ring_object_;
  FaultRing* ring_;
  std::atomic<std::uint32_t>* states_;
  UniqueFd bell_;
  // Slots that wait for an answer, and their pages as we read them once.
  std::bitset<kFaultSlots> waiting_;
  std::array<std::uint64_t, kFaultSlots> waiting_page_{};
  // Our own copy of what we posted: the client could change the shared one.
  std::array<Run, kRevokesPendingMax> revokes_{};
  std::uint32_t posted_ = 0;
  std::uint32_t applied_ = 0;
  bool broken_ = false;
};

// The ring may have served another daemon: faults that it had taken are posted again, its revokes are waited for.
Status SignalViewFaults::take_over() {
  const bool ours = ring_->magic == kFaultRingMagic && ring_->version == kFaultRingVersion;
  if (!ours || ring_->pages != pages_ || ring_->granule != granule_)
    return error(VP_INVALID,
                 "a client sent a fault ring of another version or size; use one version of vrampool on a machine");
  posted_ = ring_->revokes_posted.load();
  applied_ = ring_->revokes_applied.load();
  if (pending() > kRevokesPendingMax) return error(VP_INVALID, "a client sent a broken fault ring");
  for (std::uint32_t n = applied_; n != posted_; ++n) {
    const RevokeEntry& entry = ring_->revokes[n % kRevokesPendingMax];
    revokes_[n % kRevokesPendingMax] = {std::min(entry.page.load(), pages_), std::min(entry.pages.load(), pages_)};
  }
  for (FaultSlot& slot : ring_->slots) {
    std::uint32_t expected = kTaken;
    slot.state.compare_exchange_strong(expected, kPosted);
  }
  // Whatever was posted before anyone listened rings now; what the service thread was asked before the old daemon died,
  // too.
  ring_->daemon_rung.store(0);
  ring_->client_rung.store(0);
  ring_bell(ring_->client_rung, bell_.get());
  return {};
}

std::size_t SignalViewFaults::read_events(std::span<ViewEvent> out) {
  if (out.empty()) return 0;
  if (broken_ || !drain_bell(ring_->daemon_rung, bell_.get())) {
    out[0] = gone();
    return 1;
  }
  const std::size_t n = read_revoked(out);
  return n + read_faults(out.subspan(n));
}

std::size_t SignalViewFaults::read_revoked(std::span<ViewEvent> out) {
  const std::uint32_t applied = ring_->revokes_applied.load();
  std::size_t n = 0;
  if (applied - applied_ > pending()) {
    broken_ = true;
    out[n++] = gone();
    return n;
  }
  for (; applied_ != applied && n < out.size(); ++applied_) {
    const Run& run = revokes_[applied_ % kRevokesPendingMax];
    out[n++] = {ViewEvent::Kind::revoked, false, run.page * granule_, run.pages * granule_};
  }
  return n;
}

std::size_t SignalViewFaults::read_faults(std::span<ViewEvent> out) {
  std::size_t n = 0;
  for (std::size_t i = 0; i < kFaultSlots && n < out.size(); ++i) n += take(i, out[n]) ? 1 : 0;
  return n;
}

bool SignalViewFaults::take(std::size_t i, ViewEvent& event) {
  FaultSlot& slot = ring_->slots[i];
  std::uint32_t expected = kPosted;
  if (slot.state.load() != kPosted || !slot.state.compare_exchange_strong(expected, kTaken)) return false;
  const std::uint64_t page = slot.page.load();
  if (page >= pages_) return false;  // a client that lies waits for itself
  waiting_.set(i);
  waiting_page_[i] = page;
  event = {ViewEvent::Kind::fault, slot.wanted.load() == static_cast<std::uint32_t>(PageAccess::write), page * granule_,
           granule_};
  return true;
}

// Answered threads look at their page again; those whom it does not suffice post again.
void SignalViewFaults::wake(std::uint64_t offset, std::uint64_t bytes) {
  const std::uint64_t first = offset / granule_;
  const std::uint64_t end = (offset + bytes + granule_ - 1) / granule_;
  if (waiting_.none()) return;
  for (std::size_t i = 0; i < kFaultSlots; ++i) {
    if (!waiting_.test(i) || waiting_page_[i] < first || waiting_page_[i] >= end) continue;
    waiting_.reset(i);
    std::uint32_t expected = kTaken;
    if (ring_->slots[i].state.compare_exchange_strong(expected, kAnswered)) futex_wake_all(ring_->slots[i].state);
  }
}

Revealed SignalViewFaults::reveal(std::uint64_t offset, std::uint64_t bytes, PageAccess access) {
  VP_ASSERT(holds(offset, bytes) && bytes <= kRevealBytesMax && offset % granule_ == 0 && bytes % granule_ == 0);
  VP_ASSERT(access != PageAccess::none);
  const std::uint64_t first = offset / granule_;
  for (std::uint64_t p = first; p < first + bytes / granule_; ++p) raise_access(states_[p], access);
  wake(offset, bytes);
  Revealed result;
  result.pages = static_cast<std::uint32_t>(bytes / granule_);
  result.gone = broken_;
  return result;
}

// True when some page of the run had more.
bool SignalViewFaults::lower(Run run, PageAccess left) {
  bool had_more = false;
  for (std::uint64_t p = run.page; p < run.page + run.pages; ++p) {
    if (granted_access(states_[p].load()) > left) had_more = lower_access(states_[p], left) > left || had_more;
  }
  return had_more;
}

bool SignalViewFaults::is_pending(Run run) const {
  for (std::uint32_t n = applied_; n != posted_; ++n) {
    const Run& other = revokes_[n % kRevokesPendingMax];
    if (other.page < run.page + run.pages && run.page < other.page + other.pages) return true;
  }
  return false;
}

RevokeState SignalViewFaults::revoke(std::uint64_t offset, std::uint64_t bytes, PageAccess left) {
  VP_ASSERT(holds(offset, bytes) && offset % granule_ == 0 && bytes % granule_ == 0);
  if (broken_) return RevokeState::gone;
  const Run run{offset / granule_, bytes / granule_};
  // Room first: a word that was lowered without asking the client would look like a page it does not have.
  if (pending() == kRevokesPendingMax) return RevokeState::full;
  const bool must_ask = is_pending(run);
  if (!lower(run, left) && !must_ask) return RevokeState::done;
  const std::uint32_t at = posted_ % kRevokesPendingMax;
  revokes_[at] = run;
  ring_->revokes[at].page.store(run.page);
  ring_->revokes[at].pages.store(run.pages);
  ring_->revokes_posted.store(++posted_);
  ring_bell(ring_->client_rung, bell_.get());
  return RevokeState::pending;
}

}  // namespace

Result<std::unique_ptr<ViewFaults>> signal_view_faults(AttachDescriptors descriptors, std::uint64_t bytes) {
  if (descriptors.size() != 2) return error(VP_INVALID, "a client sent no fault ring and doorbell for its view");
  VP_TRY(ring, adopt_unnamed_object(std::move(descriptors[0]), fault_ring_bytes(bytes / fault_granule_bytes())));
  VP_CHECK(ring.map(MapUse::cache));
  auto faults = std::make_unique<SignalViewFaults>(std::move(ring), std::move(descriptors[1]), bytes);
  VP_CHECK(faults->take_over());
  return std::unique_ptr<ViewFaults>(std::move(faults));
}

}  // namespace vrampool::platform
