#include "service/data/flight.h"

#include <sched.h>

#include <algorithm>

#include "service/data/checks.h"
#include "service/data/data_loop.h"
#include "service/data/landing.h"

namespace vrampool::service::data {

Status copy_from_piece(DataLoop& loop, CacheObject& cache, PageIndex first, std::uint32_t count) {
  const std::uint64_t offset = first.value * kPageBytes;
  Piece* piece = loop.find_piece(cache.segment(), offset, count * kPageBytes);
  if (piece == nullptr)
    return error(VP_NOT_FOUND, "segment {} has no piece here at {}", to_text(cache.segment()), offset);
  if (piece->state() == PieceState::creating)
    return error(VP_BUSY, "segment {} is still being written", to_text(cache.segment()));
  const std::uint64_t at = offset - piece->segment_offset();
  for (std::uint64_t p = at / kPageBytes, end = p + count; p < end;) {
    const std::uint64_t next = piece->meta().run_end(p, end);
    const std::uint64_t to = p * kPageBytes + piece->segment_offset();
    if (piece->meta().valid(p)) {
      VP_CHECK(land(cache.data(), to, piece->view(p * kPageBytes, (next - p) * kPageBytes)));
    } else {
      for (std::uint64_t q = 0; q < next - p; ++q) VP_CHECK(land(cache.data(), to + q * kPageBytes, zero_page()));
    }
    p = next;
  }
  return {};
}

void Flight::take_off(DataLoop& mover) {
  mover_ = &mover;
  if (state_.load(std::memory_order_acquire) == State::dropped) return;
  if (home_ == mover.node().self().member) return copy_local(mover);
  self_ = shared_from_this();
  PeerLink* peer = mover.peer(home_);
  Ask ask;
  ask.header.kind = wire::DataKind::read;
  ask.header.request = request_;
  ask.header.segment = cache_->segment();
  ask.header.offset = first_.value * kPageBytes;
  ask.header.length = static_cast<std::uint32_t>(count_ * kPageBytes);
  ask.asker = this;
  const Status s =
      peer == nullptr ? Status(error(VP_UNREACHABLE, "member {} is not in the view", home_.value)) : peer->ask(ask);
  if (!s) unanswered(0, s.error());
}

void Flight::forget(DataLoop& mover) {
  if (PeerLink* peer = mover.peer(home_)) peer->forget(request_);
  self_.reset();
}

void Flight::drop() {
  State seen = State::current;
  if (state_.compare_exchange_strong(seen, State::dropped, std::memory_order_acq_rel)) return;
  while (state_.load(std::memory_order_acquire) == State::landing) ::sched_yield();
}

bool Flight::begin_landing() {
  State seen = State::current;
  return state_.compare_exchange_strong(seen, State::landing, std::memory_order_acq_rel);
}

void Flight::end(Report report) {
  state_.store(State::landed, std::memory_order_release);
  deliver_(report);
}

void Flight::copy_local(DataLoop& mover) {
  if (!begin_landing()) return;
  Report r = report();
  if (auto s = copy_from_piece(mover, *cache_, first_, count_); s)
    r.good = count_;
  else
    r.status = s.error().code;
  end(r);
}

void Flight::answered(std::uint64_t, const transport::Incoming& in) {
  const auto keep = std::exchange(self_, nullptr);
  if (!begin_landing()) return;
  Report r = report();
  if (in.header.kind != wire::DataKind::data) {
    r.status = failure_of(in).code;
    return end(r);
  }
  std::array<std::uint32_t, kPagesPerMessageMax> crcs;
  const auto sound = check_crcs(in, crcs);
  r.good = sound ? *sound : 0;
  r.corrupt = count_ - r.good;
  if (auto s = land(cache_->data(), in.header.offset, in.body.first(r.good * kPageBytes)); !s) {
    r.good = r.corrupt = 0;
    r.status = s.error().code;
  }
  end(r);
}

void Flight::unanswered(std::uint64_t, const Error& why) {
  const auto keep = std::exchange(self_, nullptr);
  if (!begin_landing()) return;
  Report r = report();
  r.status = why.code;
  end(r);
}

}  // namespace vrampool::service::data
