#include "service/data/view.h"

#include <algorithm>
#include <array>

#include "base/log.h"
#include "platform/clock.h"
#include "service/data/engine.h"

namespace vrampool::service::data {
namespace {

std::string loss_text(SegmentId segment, vp_status status, bool abort) {
  const char* what = status == VP_CORRUPT   ? "arrive damaged"
                     : status == VP_TIMEOUT ? "do not arrive in time"
                                            : "are lost";
  return fmt::format("bytes of segment {} {}; {}", to_text(segment), what,
                     abort ? "the map asked to abort" : "they read as 0xff until they are back");
}

}  // namespace

View::~View() {
  if (faults_) engine_.loop().events().unwatch(token_, faults_->fd());
  if (cache_ == nullptr) return;
  cache_->revoked(*this, PageIndex{0}, cache_->object().pages());
  for (const Part& p : parts_) cache_->drop_range(p.no);
  if (pinned_count_ != 0) cache_->feed(paging::Unpin{pinned_first_, pinned_count_});
  --cache_->users;
}

void View::use(Cache& cache) {
  cache_ = &cache;
  ++cache.users;
  cache.last_used = platform::now();
}

void View::add_part(PageIndex first, std::uint64_t count) {
  VP_ASSERT(parts_.size() < kPartsMax);
  parts_.push_back({paging::ViewNo{id_ << 4 | parts_.size()}, first, count});
}

void View::keep_pinned(PageIndex first, std::uint64_t count) {
  pinned_first_ = first;
  pinned_count_ = count;
}

Status View::attach(const wire::AttachViewT& ask, std::vector<UniqueFd> descriptors) {
  if (parts_.empty()) return {};
  if (ask.bytes != bytes_ || ask.segment_offset != offset_)
    return error(VP_INVALID, "view {} is not the one that was mapped", id_);
  if (descriptors.size() > platform::AttachDescriptors::capacity())
    return error(VP_INVALID, "view {} came with {} descriptors", id_, descriptors.size());
  if (attached()) return error(VP_EXISTS, "view {} is attached already", id_);
  platform::AttachDescriptors given;
  for (auto& fd : descriptors) given.push_back(std::move(fd));
  const auto kind = ask.posix ? platform::FaultSourceKind::posix : platform::FaultSourceKind::userfaultfd;
  VP_TRY(faults, platform::ViewFaults::attach(kind, std::move(given), ask.client_base, ask.bytes));
  VP_TRY(token, engine_.loop().events().watch(faults->fd(), platform::PollFor::read, *this));
  faults_ = std::move(faults);
  token_ = token;
  on_loss_ = ask.on_loss <= 2 ? static_cast<paging::OnLoss>(ask.on_loss) : paging::OnLoss::poison;
  for (const Part& p : parts_) cache_->add_range(p.no, p.first, p.count, on_loss_, *this);
  return {};
}

// ---- events ----

void View::on_event(const platform::PollEvent&) {
  std::array<platform::ViewEvent, 64> events;
  const std::size_t n = faults_->read_events(events);
  for (std::size_t i = 0; i < n; ++i) {
    const auto& e = events[i];
    const PageIndex page{(offset_ + e.offset) / kPageBytes};
    switch (e.kind) {
      case platform::ViewEvent::Kind::fault:
        take_fault(page);
        break;
      case platform::ViewEvent::Kind::revoked:
        cache_->revoked(*this, page, e.bytes / kPageBytes);
        break;
      case platform::ViewEvent::Kind::gone:
        return engine_.lose_view(*this);
    }
  }
  if (n == events.size()) engine_.loop().events().again(token_);
}

void View::take_fault(PageIndex page) {
  engine_.node().counters.faults.fetch_add(1, std::memory_order_relaxed);
  const auto part = std::find_if(parts_.begin(), parts_.end(), [&](const Part& p) {
    return page >= p.first && page.value < p.first.value + p.count;
  });
  if (part == parts_.end()) return;
  cache_->last_used = platform::now();
  if (cache_->can_take_fault()) return cache_->fault(part->no, page);
  if (deferred_.size() < kDeferredMax) deferred_.push_back(page);
  engine_.loop().events().wake_at({});
}

void View::feed_deferred() {
  std::vector<PageIndex> now;
  now.swap(deferred_);
  for (const PageIndex page : now) take_fault(page);
}

// ---- orders ----

View::Clip View::clip(PageIndex first, std::uint64_t count) const {
  const std::uint64_t from = std::max(first.value * kPageBytes, offset_);
  const std::uint64_t to = std::min((first.value + count) * kPageBytes, offset_ + bytes_);
  return from < to ? Clip{from - offset_, to - from} : Clip{};
}

bool View::overlaps(PageIndex first, std::uint64_t count) const { return clip(first, count).bytes != 0; }

void View::reveal(PageIndex first, std::uint32_t count) {
  auto [offset, bytes] = clip(first, count);
  while (bytes > 0 && faults_) {
    const std::uint64_t n = std::min(bytes, platform::kRevealBytesMax);
    const auto shown = faults_->reveal(offset, n, platform::PageAccess::read);
    if (shown.gone) return engine_.doom(id_);
    if (shown.again)
      return engine_.reveal_later(id_, PageIndex{(offset_ + offset) / kPageBytes},
                                  static_cast<std::uint32_t>(bytes / kPageBytes));
    if (shown.absent.any())
      log::error("view {}: pages that were filled are not in the cache of segment {}", id_, to_text(segment_));
    offset += n;
    bytes -= n;
  }
}

platform::RevokeState View::revoke(PageIndex first, std::uint32_t count) {
  const auto [offset, bytes] = clip(first, count);
  if (bytes == 0 || !faults_) return platform::RevokeState::done;
  return faults_->revoke(offset, bytes, platform::PageAccess::none);
}

void View::wake(PageIndex first, std::uint32_t count) {
  const auto [offset, bytes] = clip(first, count);
  if (bytes != 0 && faults_) faults_->wake(offset, bytes);
}

// ---- losses ----

void View::tell_loss(PageIndex first, std::uint32_t count, vp_status status, bool abort) {
  if (losses_.size() < kLossesMax) losses_.push_back({first, count});
  post_loss(first, count, status, loss_text(segment_, status, abort), false);
}

void View::tell_healed() {
  std::vector<Loss> healed;
  healed.swap(losses_);
  for (const Loss& l : healed)
    post_loss(l.first, l.count, VP_OK, fmt::format("bytes of segment {} are back", to_text(segment_)), true);
}

void View::post_loss(PageIndex first, std::uint32_t count, vp_status status, std::string message, bool healed) {
  const Node& node = engine_.node();
  if (!node.options.loss) return;
  wire::LossEventT event;
  event.view = id_;
  event.id = segment_;
  event.offset = first.value * kPageBytes;
  event.bytes = count * kPageBytes;
  event.status = static_cast<std::uint16_t>(status);
  event.message = std::move(message);
  event.healed = healed;
  node.post([&node, client = client_, event] { node.options.loss(client, event); });
}

}  // namespace vrampool::service::data
