// The registry decides what a piece is; the piece decides nothing.
#include "membership/reconcile.h"

#include <algorithm>

#include "base/mark.h"

namespace vrampool::membership {

namespace {
PieceVerdict judge(const Machine& machine, Incarnation own, const PieceFound& piece, Instant now) {
  if (piece.incarnation != own) return PieceVerdict::void_;
  if (const RecordRef record = machine.find(piece.id.segment)) {
    if (record->state == wire::SegmentState::deleted) {
      VP_MARK(piece_with_tombstone);
      return PieceVerdict::free;
    }
    const bool placed = std::any_of(record->pieces.begin(), record->pieces.end(), [&](const auto& p) {
      return p->ordinal == piece.id.ordinal && p->node == machine.self().value;
    });
    if (placed) return PieceVerdict::keep;
  }
  VP_MARK(piece_without_record);
  const bool over = machine.registry_is_current(now) && now - piece.found > kOrphanKept;
  return over ? PieceVerdict::free : PieceVerdict::orphan;
}
}  // namespace

std::vector<PieceVerdict> reconcile(const Machine& machine, Incarnation own, const std::vector<PieceFound>& found,
                                    Instant now) {
  std::vector<PieceVerdict> verdicts;
  for (const PieceFound& piece : found) verdicts.push_back(judge(machine, own, piece, now));
  return verdicts;
}

}  // namespace vrampool::membership
