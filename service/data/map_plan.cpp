#include "service/data/map_plan.h"

#include <algorithm>

namespace vrampool::service::data {
namespace {

using wire::PartKind;
using wire::ViewPartT;

ViewPartT part(PartKind kind, std::uint64_t view_offset, std::uint64_t object_offset, std::uint64_t bytes) {
  ViewPartT p;
  p.kind = kind;
  p.view_offset = view_offset;
  p.object_offset = object_offset;
  p.bytes = bytes;
  return p;
}

// Neighbouring cache parts are one: the cache object holds the whole segment.
void append(std::vector<ViewPartT>& parts, ViewPartT p) {
  if (p.bytes == 0) return;
  if (!parts.empty() && parts.back().kind == PartKind::cache && p.kind == PartKind::cache)
    parts.back().bytes += p.bytes;
  else
    parts.push_back(std::move(p));
}

// Valid runs of a piece become direct parts if they are long, or all of what is wanted of the piece.
void append_piece(std::vector<ViewPartT>& parts, const Piece& piece, std::uint64_t view_at, std::uint64_t from,
                  std::uint64_t to) {
  const std::uint64_t base = piece.segment_offset();
  const std::uint64_t first = (from - base) / kPageBytes, end = (to - base) / kPageBytes;
  for (std::uint64_t p = first; p < end;) {
    const std::uint64_t next = piece.meta().run_end(p, end);
    const std::uint64_t bytes = (next - p) * kPageBytes, at = base + p * kPageBytes;
    const bool direct = piece.meta().valid(p) && (bytes >= kDirectBytesMin || next - p == end - first);
    append(parts, part(direct ? PartKind::direct : PartKind::cache, at - view_at, direct ? p * kPageBytes : at, bytes));
    p = next;
  }
}

void give_up_shortest(std::vector<ViewPartT>& parts, std::uint64_t view_at) {
  auto shortest = parts.end();
  for (auto it = parts.begin(); it != parts.end(); ++it)
    if (it->kind == PartKind::direct && (shortest == parts.end() || it->bytes < shortest->bytes)) shortest = it;
  if (shortest == parts.end()) return;
  *shortest = part(PartKind::cache, shortest->view_offset, shortest->view_offset + view_at, shortest->bytes);
  std::vector<ViewPartT> joined;
  for (auto& p : parts) append(joined, std::move(p));
  parts = std::move(joined);
}

}  // namespace

std::vector<ViewPartT> plan_parts(DataLoop& loop, SegmentId id, std::uint64_t offset, std::uint64_t bytes) {
  std::vector<ViewPartT> parts;
  const auto& placement = loop.find(id)->placement;
  for (std::uint64_t at = offset, end = offset + bytes; at < end;) {
    const auto& run = placement.at(at);
    const std::uint64_t next = std::min(end, run.offset + run.bytes);
    const Piece* piece = run.home == loop.node().self().member ? loop.find_piece(id, at, next - at) : nullptr;
    if (piece != nullptr && piece->state() != PieceState::creating)
      append_piece(parts, *piece, offset, at, next);
    else
      append(parts, part(PartKind::cache, at - offset, at, next - at));
    at = next;
  }
  while (parts.size() > kDescriptorsPerMessageMax) give_up_shortest(parts, offset);
  return parts;
}

}  // namespace vrampool::service::data
