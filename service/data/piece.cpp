#include "service/data/piece.h"

#include <algorithm>
#include <cstring>

#include "base/crc32c.h"
#include "service/data/landing.h"
#include "service/data/piece_digest.h"

namespace vrampool::service::data {
namespace {

// The crc table is made room for in parts of this many pages (64 KiB of table, 256 MiB of data).
constexpr std::uint64_t kCrcChunkPages = 16384;

Status reserve_fixed_parts(platform::SharedObject& meta, std::uint64_t data_bytes) {
  const auto pages = (data_bytes + kPageBytes - 1) / kPageBytes;
  return meta.reserve(0, std::min<std::uint64_t>(meta.bytes(), PieceMeta::crc_offset(pages)));
}

}  // namespace

std::string piece_data_name(PieceId id) { return fmt::format("{}-{}.d", to_text(id.segment), id.ordinal); }
std::string piece_meta_name(PieceId id) { return fmt::format("{}-{}.m", to_text(id.segment), id.ordinal); }

Result<PiecePtr> Piece::create(platform::ObjectStore& store, const MetaHeader& header) {
  const PieceId id{header.segment, header.ordinal};
  VP_TRY(meta, store.create(piece_meta_name(id), PieceMeta::object_bytes(header.bytes)));
  auto data = store.create(piece_data_name(id), header.bytes);
  const auto undo = [&](Error why) {
    (void)store.remove(piece_data_name(id));
    (void)store.remove(piece_meta_name(id));
    return why;
  };
  if (!data) return undo(data.take_error());
  if (auto s = reserve_fixed_parts(meta, header.bytes); !s) return undo(s.take_error());
  if (auto s = meta.map(platform::MapUse::cache); !s) return undo(s.take_error());
  if (auto s = data->map(platform::MapUse::cache); !s) return undo(s.take_error());
  PiecePtr piece(new Piece(std::move(*data), std::move(meta), header.token));
  piece->meta_ = PieceMeta::format(piece->meta_object_.memory(), header);
  piece->state_ = static_cast<PieceState>(header.state);
  piece->crcs_reserved_.resize(piece->pages() / kCrcChunkPages + 1);
  return piece;
}

Result<PiecePtr> Piece::adopt(platform::ObjectStore& store, PieceId id, platform::MachineId boot) {
  VP_TRY(meta_object, store.open_existing(piece_meta_name(id)));
  VP_CHECK(meta_object.map(platform::MapUse::cache));
  VP_TRY(meta, PieceMeta::open(meta_object.memory()));
  const MetaHeader& h = meta.header();
  if (h.kind != MetaKind::piece || PieceId{h.segment, h.ordinal} != id)
    return error(VP_CORRUPT, "the metadata of piece {} names another", to_text(id));
  if (h.boot != boot) return error(VP_STALE, "piece {} is of an earlier boot", to_text(id));
  if (h.state < 1 || h.state > 3) return error(VP_CORRUPT, "piece {} is in no known state", to_text(id));
  VP_TRY(data, store.open_existing(piece_data_name(id)));
  if (data.bytes() != h.bytes)
    return error(VP_CORRUPT, "piece {} holds {} bytes, its metadata says {}", to_text(id), data.bytes(), h.bytes);
  VP_CHECK(data.map(platform::MapUse::cache));
  PiecePtr piece(new Piece(std::move(data), std::move(meta_object), h.token));
  piece->meta_ = meta;
  piece->state_ = static_cast<PieceState>(h.state);
  piece->crcs_reserved_.resize(piece->pages() / kCrcChunkPages + 1);
  // What was being written when the daemon died is taken back: it counts as never written.
  if (piece->state() == PieceState::creating)
    piece->take_back(0, piece->pages());
  else
    piece->gate_.freeze(h.token);
  return piece;
}

PieceReport Piece::report() const {
  const MetaHeader& h = meta_.header();
  return {id(), state(), h.segment_offset, h.bytes, h.token, h.incarnation, meta_.count_valid()};
}

void Piece::copy_out(std::uint64_t offset, std::span<std::byte> into) const {
  VP_ASSERT(offset <= bytes() && into.size() <= bytes() - offset);
  while (!into.empty()) {
    const std::uint64_t page = offset / kPageBytes;
    const std::uint64_t last = (offset + into.size() + kPageBytes - 1) / kPageBytes;
    const auto n =
        static_cast<std::size_t>(std::min<std::uint64_t>(into.size(), meta_.run_end(page, last) * kPageBytes - offset));
    if (meta_.valid(page))
      std::memcpy(into.data(), data_.memory().data() + offset, n);
    else
      std::memset(into.data(), 0, n);
    offset += n;
    into = into.subspan(n);
  }
}

Status Piece::check_range(std::uint64_t offset, std::uint64_t bytes) const {
  if (bytes == 0 || offset > data_.bytes() || bytes > data_.bytes() - offset)
    return error(VP_INVALID, "write beyond the end of piece {}", to_text(id()));
  return {};
}

Error Piece::refusal(membership::WriteVerdict verdict) const {
  using membership::WriteVerdict;
  if (verdict == WriteVerdict::denied) return error(VP_DENIED, "piece {} belongs to another writer", to_text(id()));
  if (verdict == WriteVerdict::busy) return error(VP_BUSY, "that write to piece {} is being applied", to_text(id()));
  return error(VP_STALE, "piece {} is frozen: nothing is written to it any more", to_text(id()));
}

Status Piece::reserve_crcs(std::uint64_t first_page, std::uint64_t count) {
  for (std::uint64_t c = first_page / kCrcChunkPages; c <= (first_page + count - 1) / kCrcChunkPages; ++c) {
    if (crcs_reserved_[c]) continue;
    const std::uint64_t from = PieceMeta::crc_offset(pages()) + c * kCrcChunkPages * 4;
    VP_CHECK(meta_object_.reserve(from, std::min<std::uint64_t>(kCrcChunkPages * 4, meta_object_.bytes() - from)));
    crcs_reserved_[c] = true;
  }
  return {};
}

Status Piece::apply(std::uint64_t offset, std::span<const std::byte> bytes, std::span<const std::uint32_t> crcs) {
  const std::uint64_t first = offset / kPageBytes;
  for (std::uint64_t i = 0; i < crcs.size(); ++i) meta_.clear_valid(first + i);
  if (auto s = land(data_, offset, bytes); !s) {
    take_back(first, crcs.size());
    return s;
  }
  for (std::uint64_t i = 0; i < crcs.size(); ++i) {
    meta_.set_crc(first + i, crcs[i]);
    meta_.set_valid(first + i);
  }
  return {};
}

Status Piece::write_pages(Sender sender, RequestNo request, std::uint64_t token, std::uint64_t offset,
                          std::span<const std::byte> bytes, std::span<const std::uint32_t> crcs) {
  if (offset % kPageBytes != 0 || bytes.size() != crcs.size() * kPageBytes)
    return error(VP_INVALID, "only whole pages are written to piece {}", to_text(id()));
  VP_CHECK(check_range(offset, bytes.size()));
  const membership::WriteTag tag{sender, request, token};
  {
    std::lock_guard lock(mutex_);
    VP_CHECK(reserve_crcs(offset / kPageBytes, crcs.size()));
    const auto verdict = gate_.begin(tag);
    if (verdict == membership::WriteVerdict::already) return {};
    if (verdict != membership::WriteVerdict::apply) return refusal(verdict);
  }
  Status applied = apply(offset, bytes, crcs);
  std::lock_guard lock(mutex_);
  gate_.end(tag, applied.ok());
  if (gate_.in_flight() == 0) quiet_.notify_all();
  return applied;
}

Status Piece::write_part(std::uint64_t token, std::uint64_t offset, std::span<const std::byte> bytes) {
  std::lock_guard lock(mutex_);
  VP_CHECK(check_range(offset, bytes.size()));
  if (token != this->token()) return refusal(membership::WriteVerdict::denied);
  if (gate_.state() != membership::GateState::creating) return refusal(membership::WriteVerdict::frozen);
  const std::uint64_t first = offset / kPageBytes;
  const std::uint64_t count = (offset + bytes.size() + kPageBytes - 1) / kPageBytes - first;
  VP_CHECK(reserve_crcs(first, count));
  const auto whole_bytes = std::min<std::uint64_t>(count * kPageBytes, data_.bytes() - first * kPageBytes);
  if (auto s = data_.reserve(first * kPageBytes, whole_bytes); !s) return s;
  if (auto s = land(data_, offset, bytes); !s) return s;
  for (std::uint64_t p = first; p < first + count; ++p) {
    meta_.set_crc(p, crc32c(view(p * kPageBytes, kPageBytes)));
    meta_.set_valid(p);
  }
  return {};
}

void Piece::take_back(std::uint64_t first_page, std::uint64_t count) {
  for (std::uint64_t p = first_page, end = first_page + count; p < end;) {
    const std::uint64_t next = meta_.run_end(p, end);
    if (!meta_.valid(p)) (void)blank(data_, p * kPageBytes, (next - p) * kPageBytes);
    p = next;
  }
}

void Piece::set_state(PieceState s) {
  MetaHeader h = meta_.header();
  h.state = static_cast<std::uint8_t>(s);
  meta_.store(h);
  state_.store(s, std::memory_order_release);
}

Status Piece::freeze(std::uint64_t token) {
  std::unique_lock lock(mutex_);
  if (token != this->token()) return refusal(membership::WriteVerdict::denied);
  gate_.freeze(token);
  quiet_.wait(lock, [&] { return gate_.state() != membership::GateState::freezing; });
  if (state() == PieceState::creating) set_state(PieceState::frozen);
  return {};
}

Status Piece::seal() {
  std::lock_guard lock(mutex_);
  if (state() == PieceState::creating) return error(VP_INVALID, "piece {} is not frozen", to_text(id()));
  if (state() == PieceState::frozen) set_state(PieceState::sealed);
  return {};
}

Sha256 Piece::digest() {
  {
    std::lock_guard lock(mutex_);
    if (digest_) return *digest_;
  }
  const Sha256 made = piece_digest(*this);
  std::lock_guard lock(mutex_);
  digest_ = made;
  return made;
}

}  // namespace vrampool::service::data
