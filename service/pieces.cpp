// A host's side of create, freeze, seal and free; and the reconciliation of pieces with the registry.
#include "service/pieces.h"

#include <algorithm>

#include "base/log.h"
#include "base/text.h"
#include "platform/clock.h"

namespace vrampool::service {
namespace {

constexpr std::int64_t kPiecesTickMs = 1000;
// Walking all records is for every so many ticks.
constexpr unsigned kMissingEveryTicks = 5;

Body reply_of(const Status& status, const Sha256* sha = nullptr) {
  wire::PieceReplyT r;
  r.status = static_cast<std::uint16_t>(status ? VP_OK : status.error().code);
  if (!status) r.message = status.error().message;
  if (sha)
    for (const std::byte b : *sha) r.sha256.push_back(std::to_integer<std::uint8_t>(b));
  return body_of(std::move(r));
}

}  // namespace

Pieces::Pieces(Loop& loop, Members& members, DataPlane& data, Sender self, Incarnation incarnation,
               std::uint64_t capacity_bytes)
    : loop_(loop), members_(members), data_(data), self_(self), incarnation_(incarnation), accounts_(capacity_bytes) {
  const Instant now = platform::now();
  for (const PieceReport& p : data_.adopted()) {
    pieces_[p.id] = Entry{p.bytes, p.state, p.incarnation, now, false};
    if (const Status booked = accounts_.adopt(p.id, p.bytes); !booked)
      log::warn("piece {}: {}", to_text(p.id), booked.error().message);
  }
  if (!pieces_.empty())
    log::info("{} pieces of an earlier life are here, {}", pieces_.size(), format_bytes(accounts_.used_bytes()));
  tick();
}

Pieces::~Pieces() { loop_.forget(timer_); }

// ---- asked by creators ----

Task<Body> Pieces::create(Sender asker, wire::PieceCreateT ask) {
  if (!ask.piece || ask.piece->node != self_.member.value)
    co_return reply_of(error(VP_INVALID, "that piece is not for this node"));
  if (ask.segment.member != asker.member || ask.segment.life != asker.life)
    co_return reply_of(error(VP_DENIED, "segment {} belongs to another life of its creator", to_text(ask.segment)));
  const PieceId id{ask.segment, ask.piece->ordinal};
  if (pieces_.contains(id)) co_return reply_of({});  // asked twice
  const std::uint64_t bytes = ask.piece->bytes;
  if (bytes == 0 || bytes % kPageBytes != 0 || bytes > kPieceBytesMax)
    co_return reply_of(error(VP_INVALID, "a piece of {} bytes", bytes));
  if (const Status room = accounts_.reserve(id, bytes); !room) co_return reply_of(room);
  pieces_[id] = Entry{bytes, PieceState::creating, incarnation_, platform::now(), false};
  auto done = loop_.reply<Status>();
  data_.create_piece(ask.segment, *ask.piece, ask.token, [done](Status s) { done.set(std::move(s)); });
  const Status made = co_await done;
  if (made)
    static_cast<void>(accounts_.use(id));
  else
    pieces_.erase(id), accounts_.release(id);
  co_return reply_of(made);
}

Task<Body> Pieces::freeze(wire::PieceFreezeT ask) {
  const PieceId id{ask.segment, ask.ordinal};
  if (!pieces_.contains(id)) co_return reply_of(error(VP_NOT_FOUND, "piece {} is not on this node", to_text(id)));
  auto done = loop_.reply<Result<Sha256>>();
  data_.freeze_piece(id, ask.token, [done](Result<Sha256> r) { done.set(std::move(r)); });
  const Result<Sha256> sha = co_await done;
  if (!sha) co_return reply_of(sha.error());
  if (const auto at = pieces_.find(id); at != pieces_.end()) at->second.state = PieceState::frozen;
  co_return reply_of({}, &*sha);
}

Task<Body> Pieces::seal(wire::PieceSealT ask) {
  const PieceId id{ask.segment, ask.ordinal};
  const Status sealed = co_await await_seal(id);
  co_return reply_of(sealed);
}

Task<Body> Pieces::free(wire::PieceFreeT ask) {
  const PieceId id{ask.segment, ask.ordinal};
  const membership::RecordRef record = members_.machine().find(ask.segment);
  if (record && record->state != wire::SegmentState::deleted)
    co_return reply_of(error(VP_DENIED, "segment {} is registered: remove it by name", to_text(ask.segment)));
  const Status freed = co_await await_free(id);
  co_return reply_of(freed);
}

Body Pieces::space() const {
  wire::SpaceReplyT r;
  r.capacity = accounts_.capacity_bytes();
  r.used = accounts_.capacity_bytes() - std::min(accounts_.capacity_bytes(), accounts_.free_bytes());
  r.largest = accounts_.free_bytes();
  return body_of(std::move(r));
}

// ---- what the data plane is told ----

Task<Status> Pieces::await_seal(PieceId id) {
  const auto at = pieces_.find(id);
  if (at == pieces_.end()) co_return error(VP_NOT_FOUND, "piece {} is not on this node", to_text(id));
  if (at->second.state == PieceState::sealed) co_return Status{};
  auto done = loop_.reply<Status>();
  data_.seal_piece(id, [done](Status s) { done.set(std::move(s)); });
  const Status sealed = co_await done;
  if (!sealed) log::warn("piece {} cannot be sealed: {}", to_text(id), sealed.error().message);
  if (const auto again = pieces_.find(id); sealed && again != pieces_.end()) again->second.state = PieceState::sealed;
  co_return sealed;
}

Task<Status> Pieces::await_free(PieceId id) {
  const auto at = pieces_.find(id);
  if (at == pieces_.end() || at->second.going) co_return Status{};
  at->second.going = true;
  auto done = loop_.reply<Status>();
  data_.free_piece(id, [done](Status s) { done.set(std::move(s)); });
  const Status freed = co_await done;
  if (freed || freed.error().code == VP_NOT_FOUND) {
    pieces_.erase(id);
    accounts_.release(id);
    co_return Status{};
  }
  if (const auto again = pieces_.find(id); again != pieces_.end()) again->second.going = false;
  log::warn("piece {} cannot be freed: {}", to_text(id), freed.error().message);
  co_return freed;
}

Task<> Pieces::free_one(PieceId id) {
  const Status freed = co_await await_free(id);
  if (freed) log::info("piece {} freed", to_text(id));
}

Task<> Pieces::seal_one(PieceId id) { static_cast<void>(co_await await_seal(id)); }

// ---- records ----

std::vector<PieceId> Pieces::of_segment(SegmentId id) const {
  std::vector<PieceId> out;
  for (auto at = pieces_.lower_bound(PieceId{id, 0}); at != pieces_.end() && at->first.segment == id; ++at)
    out.push_back(at->first);
  return out;
}

void Pieces::record_applied(const membership::RecordRef& record) {
  for (const PieceId& id : of_segment(record->id)) {
    if (record->state == wire::SegmentState::sealed && pieces_[id].state == PieceState::frozen)
      loop_.spawn(seal_one(id));
    if (record->state == wire::SegmentState::deleted) loop_.spawn(free_one(id));
  }
}

void Pieces::tick() {
  judge_found();
  say_freed();
  if (ticks_++ % kMissingEveryTicks == 0) count_missing();
  timer_ = loop_.after(Duration::millis(kPiecesTickMs), [this] { tick(); });
}

void Pieces::judge_found() {
  const membership::Machine& machine = members_.machine();
  const Instant now = platform::now();
  std::vector<membership::PieceFound> found;
  for (const auto& [id, entry] : pieces_) found.push_back({id, entry.incarnation, entry.found});
  const auto verdicts = membership::reconcile(machine, incarnation_, found, now);
  orphans_ = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const PieceId id = found[i].id;
    const Entry entry = pieces_[id];
    if (entry.going) continue;
    switch (verdicts[i]) {
      case membership::PieceVerdict::keep:
        if (const auto record = machine.find(id.segment);
            record && record->state == wire::SegmentState::sealed && entry.state == PieceState::frozen)
          loop_.spawn(seal_one(id));
        break;
      case membership::PieceVerdict::orphan:
        ++orphans_;
        drop_unwanted(entry, id);
        break;
      case membership::PieceVerdict::free:
      case membership::PieceVerdict::void_:
        loop_.spawn(free_one(id));
        break;
    }
  }
}

// A half-made piece whose record never came and whose creator's life is over: nobody can want it any more.
void Pieces::drop_unwanted(const Entry& entry, PieceId id) {
  const membership::Machine& machine = members_.machine();
  const Sender creator{id.segment.member, id.segment.life};
  const bool half_made = entry.state != PieceState::sealed;
  if (half_made && !machine.find(id.segment) && machine.registry_is_current(platform::now()) &&
      !machine.is_current(creator))
    loop_.spawn(free_one(id));
}

void Pieces::say_freed() {
  for (const auto& record : members_.machine().records()) {
    const auto& waits = record->tombstone_waits_for;
    if (record->state != wire::SegmentState::deleted || telling_.contains(record->id)) continue;
    if (std::find(waits.begin(), waits.end(), self_.member.value) == waits.end() || !of_segment(record->id).empty())
      continue;
    telling_.insert(record->id);
    loop_.spawn(tell_freed(record->id));
  }
}

void Pieces::count_missing() {
  missing_bytes_ = 0;
  for (const auto& record : members_.machine().records()) {
    if (record->state != wire::SegmentState::sealed) continue;
    for (const auto& piece : record->pieces)
      if (piece->node == self_.member.value && !pieces_.contains({record->id, piece->ordinal}))
        missing_bytes_ += piece->bytes;
  }
}

Task<> Pieces::tell_freed(SegmentId id) {
  Members::What what = membership::Freed{id};
  static_cast<void>(co_await members_.run(std::move(what)));
  telling_.erase(id);
}

void Pieces::set_capacity(std::uint64_t bytes) {
  accounts_.set_capacity(bytes);
  data_.set_capacity(bytes);
}

std::string Pieces::state_of(PieceId id) const {
  const auto at = pieces_.find(id);
  if (at == pieces_.end()) return "";
  return at->second.state == PieceState::sealed   ? "sealed"
         : at->second.state == PieceState::frozen ? "frozen"
                                                  : "creating";
}

}  // namespace vrampool::service
