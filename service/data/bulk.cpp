#include "service/data/bulk.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/crc32c.h"
#include "platform/clock.h"
#include "service/data/checks.h"
#include "service/data/data_loop.h"
#include "service/data/placement.h"

namespace vrampool::service::data {
namespace {

Status check_range(const Record& record, std::uint64_t offset, std::uint64_t bytes) {
  if (!record || offset % kPageBytes != 0 || bytes % kPageBytes != 0 || offset > record->bytes ||
      bytes > record->bytes - offset)
    return error(VP_INVALID, "{} bytes at {} are no whole pages of the segment", bytes, offset);
  return {};
}

}  // namespace

Bulk::Bulk(Node& node) : node_(node) {
  for (Slot& s : slots_) s.owner = this;
}

Bulk::~Bulk() {
  cancel();
  std::unique_lock lock(mutex_);
  moved_.wait(lock, [&] { return busy_ == 0; });
}

// ---- slots ----

Duration Bulk::restart(Instant now) {
  Duration next = Duration::seconds(1);
  for (Slot& s : slots_) {
    if (s.phase != Phase::again) continue;
    if (failure_ || cancelled_) {
      s.phase = Phase::idle;
      --busy_;
    } else if (s.again_at <= now) {
      fly(s);
    } else {
      next = std::min(next, s.again_at - now);
    }
  }
  return next;
}

Status Bulk::wait_for(std::size_t busy) {
  std::unique_lock lock(mutex_);
  for (;;) {
    const Duration next = restart(platform::now());
    if (busy_ <= busy) break;
    moved_.wait_for(lock, std::chrono::nanoseconds(next.ns));
  }
  if (failure_) return *failure_;
  if (cancelled_) return error(VP_CANCELLED, "the transfer was cancelled");
  return {};
}

Result<Bulk::Slot*> Bulk::free_slot() {
  VP_CHECK(wait_for(kSlots - 1));
  std::lock_guard lock(mutex_);
  const auto it = std::find_if(slots_.begin(), slots_.end(), [](const Slot& s) { return s.phase == Phase::idle; });
  VP_ASSERT(it != slots_.end());
  ++busy_;
  it->phase = Phase::again;  // taken; nobody restarts it before its time is set
  it->again_at = Instant{std::numeric_limits<std::int64_t>::max()};
  it->deadline = platform::now() + node_.options.fault_deadline;
  it->damaged = 0;
  return &*it;
}

// REQUIRES: the mutex.
void Bulk::fly(Slot& slot) {
  slot.phase = Phase::flying;
  const auto movers = static_cast<unsigned>(node_.loops.size()) - 1;
  DataLoop* loop = node_.loops[movers == 0 ? 0 : 1 + next_mover_++ % movers].get();
  loop->post([this, &slot, loop] { take_off(slot, *loop); });
}

void Bulk::take_off(Slot& slot, DataLoop& mover) {
  PeerLink* peer = mover.peer(slot.home);
  if (peer == nullptr) {
    // Dead is only what a view of this life says; a daemon that has just started has not seen one, or not its link yet.
    const bool unsure = mover.lives().empty() || mover.alive(slot.home);
    return failed(slot, error(unsure ? VP_UNREACHABLE : VP_LOST, "member {} is gone", slot.home.value));
  }
  Ask ask;
  ask.header = slot.ask;
  if (ask.header.kind == wire::DataKind::write) {
    ask.side = std::as_bytes(std::span(slot.crcs)).first(wire::crc_table_bytes(slot.ask.length));
    ask.body = std::span<const std::byte>(slot.buffer.get(), slot.ask.length);
  }
  ask.asker = &slot;
  ask.deadline = slot.deadline;
  if (auto s = peer->ask(ask); !s) failed(slot, s.error());
}

void Bulk::landed(Slot& slot) {
  std::lock_guard lock(mutex_);
  slot.phase = Phase::idle;
  --busy_;
  moved_.notify_all();
}

void Bulk::failed(Slot& slot, const Error& why) {
  std::lock_guard lock(mutex_);
  if (passes(why.code) && !failure_ && !cancelled_ && platform::now() + kTryAgain < slot.deadline) {
    slot.phase = Phase::again;
    slot.again_at = platform::now() + kTryAgain;
    node_.counters.retries.fetch_add(1, std::memory_order_relaxed);
  } else {
    if (!failure_) failure_ = why;
    slot.phase = Phase::idle;
    --busy_;
  }
  moved_.notify_all();
}

void Bulk::Slot::answered(std::uint64_t, const transport::Incoming& in) {
  if (in.header.kind == wire::DataKind::failure) return owner->failed(*this, failure_of(in));
  if (in.header.kind != wire::DataKind::data) return owner->landed(*this);
  const auto sound = check_crcs(in, crcs);
  if (sound && *sound == wire::pages_of(ask.length)) {
    owner->node_.counters.pages_fetched.fetch_add(*sound, std::memory_order_relaxed);
    return owner->landed(*this);
  }
  owner->node_.counters.crc_errors.fetch_add(1, std::memory_order_relaxed);
  const bool hopeless = ++damaged >= kDamagedMax;
  owner->failed(*this, error(hopeless ? VP_CORRUPT : VP_BUSY, "bytes at {} of segment {} arrive damaged from member {}",
                             ask.offset, to_text(ask.segment), home.value));
}

void Bulk::Slot::unanswered(std::uint64_t, const Error& why) { owner->failed(*this, why); }

// ---- the job's side ----

Status Bulk::write(const Record& record, std::uint64_t offset, std::span<const std::byte> bytes) {
  VP_CHECK(check_range(record, offset, bytes.size()));
  const std::uint64_t end = offset + bytes.size();
  // Every copy gets the bytes.
  for (const auto& piece : record->pieces) {
    if (!piece) continue;
    const std::uint64_t from = std::max(offset, piece->offset), to = std::min(end, piece->offset + piece->bytes);
    for (std::uint64_t at = from; at < to; at += kChunkBytes)
      VP_CHECK(write_chunk(record, *piece, at, bytes.subspan(at - offset, std::min(kChunkBytes, to - at))));
  }
  return {};
}

Status Bulk::write_chunk(const Record& record, const wire::PieceT& piece, std::uint64_t offset,
                         std::span<const std::byte> bytes) {
  const std::size_t pages = bytes.size() / kPageBytes;
  if (MemberNo{piece.node} == node_.self().member) {
    std::array<std::uint32_t, kPagesPerMessageMax> crcs;
    for (std::size_t i = 0; i < pages; ++i) crcs[i] = crc32c(bytes.subspan(i * kPageBytes, kPageBytes));
    const PiecePtr here = node_.store.find({record->id, piece.ordinal});
    if (here == nullptr)
      return error(VP_NOT_FOUND, "piece {} of segment {} is not on this node", piece.ordinal, to_text(record->id));
    return here->write_pages(node_.self(), node_.next_write(), record->create_token, offset - piece.offset, bytes,
                             std::span(crcs).first(pages));
  }
  VP_TRY(slot, free_slot());
  if (!slot->buffer) slot->buffer = std::make_unique<std::byte[]>(kChunkBytes);
  std::memcpy(slot->buffer.get(), bytes.data(), bytes.size());
  for (std::size_t i = 0; i < pages; ++i) slot->crcs[i] = crc32c({slot->buffer.get() + i * kPageBytes, kPageBytes});
  slot->home = MemberNo{piece.node};
  slot->ask = {};
  slot->ask.kind = wire::DataKind::write;
  slot->ask.request = node_.next_write();
  slot->ask.segment = record->id;
  slot->ask.offset = offset;
  slot->ask.length = static_cast<std::uint32_t>(bytes.size());
  slot->ask.token = record->create_token;
  std::lock_guard lock(mutex_);
  fly(*slot);
  return {};
}

Status Bulk::flush() {
  Status s = wait_for(0);
  std::lock_guard lock(mutex_);
  failure_.reset();
  return s;
}

Status Bulk::read(const Record& record, std::uint64_t offset, std::span<std::byte> bytes) {
  VP_CHECK(check_range(record, offset, bytes.size()));
  const Placement placement(*record, node_.self().member, [](MemberNo) { return true; });
  Status s;
  for (std::uint64_t at = offset, end = offset + bytes.size(); at < end && s;) {
    const auto& run = placement.at(at);
    const std::uint64_t n = std::min({end - at, run.offset + run.bytes - at, std::uint64_t{kChunkBytes}});
    s = read_chunk(record, run.home, at, bytes.subspan(at - offset, n));
    at += n;
  }
  // The caller's memory is borrowed until the last answer has come or was given up.
  const Status all = wait_for(0);
  std::lock_guard lock(mutex_);
  failure_.reset();
  return s ? all : s;
}

Status Bulk::read_chunk(const Record& record, MemberNo home, std::uint64_t offset, std::span<std::byte> into) {
  if (home == node_.self().member) return read_local(record, offset, into);
  VP_TRY(slot, free_slot());
  slot->home = home;
  slot->into = into;
  slot->ask = {};
  slot->ask.kind = wire::DataKind::read;
  slot->ask.request =
      RequestNo{0x8000ull << kRequestCounterBits | node_.bulk_reads.fetch_add(1, std::memory_order_relaxed)};
  slot->ask.segment = record->id;
  slot->ask.offset = offset;
  slot->ask.length = static_cast<std::uint32_t>(into.size());
  std::lock_guard lock(mutex_);
  fly(*slot);
  return {};
}

Status Bulk::read_local(const Record& record, std::uint64_t offset, std::span<std::byte> into) {
  const PiecePtr piece = node_.store.find_range(record->id, offset, into.size());
  if (piece == nullptr)
    return error(VP_LOST, "segment {} should have a piece here at {}, but it is gone", to_text(record->id), offset);
  if (piece->state() == PieceState::creating)
    return error(VP_BUSY, "segment {} is still being written", to_text(record->id));
  const std::uint64_t at = offset - piece->segment_offset();
  piece->copy_out(at, into);
  for (std::size_t i = 0; i < into.size() / kPageBytes; ++i)
    if (crc32c(into.subspan(i * kPageBytes, kPageBytes)) != piece->crc(at / kPageBytes + i))
      return error(VP_CORRUPT, "page {} of segment {} does not match its checksum on this node",
                   offset / kPageBytes + i, to_text(record->id));
  return {};
}

void Bulk::cancel() {
  std::lock_guard lock(mutex_);
  cancelled_ = true;
  for (Slot& s : slots_) {
    if (s.phase != Phase::again) continue;
    s.phase = Phase::idle;
    --busy_;
  }
  moved_.notify_all();
}

}  // namespace vrampool::service::data
