#include "service/data/piece_store.h"

#include <charconv>
#include <optional>
#include <string_view>

#include "base/log.h"

namespace vrampool::service::data {
namespace {

// "3.12.7-2.m" to its PieceId.
std::optional<PieceId> parse_piece_name(std::string_view name, std::string_view suffix) {
  if (!name.ends_with(suffix)) return std::nullopt;
  name.remove_suffix(suffix.size());
  const auto dash = name.rfind('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto segment = parse_segment_id(name.substr(0, dash));
  PieceId id;
  const auto digits = name.substr(dash + 1);
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), id.ordinal);
  if (!segment || failed != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  id.segment = *segment;
  return id;
}

Status check_piece(const wire::PieceT& p) {
  if (p.bytes == 0 || p.bytes > kPieceBytesMax || p.bytes % kPageBytes != 0 || p.offset % kPageBytes != 0 ||
      p.offset > kPoolSlotBytes)
    return error(VP_INVALID, "a piece of {} bytes at {} is not a whole number of pages", p.bytes, p.offset);
  return {};
}

}  // namespace

Result<PieceStore> PieceStore::open(const DataPlaneOptions& options, platform::MachineId boot) {
  VP_TRY(objects, platform::ObjectStore::open({.directory = options.memory_dir}));
  auto body = std::make_unique<Body>(std::move(objects), options.capacity_bytes);
  body->incarnation = options.incarnation;
  body->boot = boot;
  return PieceStore(std::move(body));
}

void PieceStore::adopt_one(Body& body, PieceId id) {
  auto piece = Piece::adopt(body.objects, id, body.boot);
  if (piece && (*piece)->meta().header().incarnation == body.incarnation &&
      body.accounts.adopt(id, (*piece)->bytes())) {
    body.pieces.emplace(id, std::move(*piece));
    return;
  }
  log::warn("piece {} is not adopted: {}", to_text(id),
            piece ? "it is of an earlier incarnation" : piece.error().message);
  (void)body.objects.remove(piece_meta_name(id));
  (void)body.objects.remove(piece_data_name(id));
}

void PieceStore::adopt_all() {
  std::lock_guard lock(body_->mutex);
  const auto names = body_->objects.list();
  if (!names) return;
  for (const auto& name : *names)
    if (const auto id = parse_piece_name(name, ".m")) adopt_one(*body_, *id);
  for (const auto& name : *names) {
    const auto id = parse_piece_name(name, ".d");
    if (id && !body_->pieces.contains(*id)) (void)body_->objects.remove(name);
  }
}

Result<PiecePtr> PieceStore::create(SegmentId segment, const wire::PieceT& p, std::uint64_t token) {
  VP_CHECK(check_piece(p));
  const PieceId id{segment, p.ordinal};
  std::lock_guard lock(body_->mutex);
  if (const auto it = body_->pieces.find(id); it != body_->pieces.end()) {
    if (it->second->token() == token && it->second->bytes() == p.bytes) return it->second;
    return error(VP_EXISTS, "piece {} is here already, for another writer", to_text(id));
  }
  VP_CHECK(body_->accounts.reserve(id, p.bytes));
  const MetaHeader header{.kind = MetaKind::piece,
                          .state = static_cast<std::uint8_t>(PieceState::creating),
                          .segment = segment,
                          .ordinal = p.ordinal,
                          .copy = p.copy,
                          .segment_offset = p.offset,
                          .bytes = p.bytes,
                          .token = token,
                          .incarnation = body_->incarnation,
                          .boot = body_->boot};
  auto piece = Piece::create(body_->objects, header);
  if (!piece) {
    body_->accounts.release(id);
    return piece;
  }
  (void)body_->accounts.use(id);
  body_->pieces.emplace(id, *piece);
  return piece;
}

PiecePtr PieceStore::find(PieceId id) const {
  std::lock_guard lock(body_->mutex);
  const auto it = body_->pieces.find(id);
  return it == body_->pieces.end() ? nullptr : it->second;
}

std::vector<PiecePtr> PieceStore::all() const {
  std::lock_guard lock(body_->mutex);
  std::vector<PiecePtr> out;
  for (const auto& [id, piece] : body_->pieces) out.push_back(piece);
  return out;
}

PiecePtr PieceStore::find_range(SegmentId segment, std::uint64_t offset, std::uint64_t length) const {
  std::lock_guard lock(body_->mutex);
  for (auto it = body_->pieces.lower_bound({segment, 0}); it != body_->pieces.end() && it->first.segment == segment;
       ++it) {
    const Piece& p = *it->second;
    if (offset >= p.segment_offset() && offset + length <= p.segment_offset() + p.bytes()) return it->second;
  }
  return nullptr;
}

void PieceStore::remove(PieceId id) {
  std::lock_guard lock(body_->mutex);
  body_->pieces.erase(id);
  (void)body_->objects.remove(piece_meta_name(id));
  (void)body_->objects.remove(piece_data_name(id));
  body_->accounts.release(id);
}

void PieceStore::set_capacity(std::uint64_t bytes) {
  std::lock_guard lock(body_->mutex);
  body_->accounts.set_capacity(bytes);
}

PieceStore::Books PieceStore::books() const {
  std::lock_guard lock(body_->mutex);
  return {body_->accounts.capacity_bytes(), body_->accounts.reserved_bytes() + body_->accounts.used_bytes(),
          body_->accounts.pieces()};
}

}  // namespace vrampool::service::data
