// The flows over several members. Each is one coroutine that reads from top to bottom.
#include "service/segments.h"

#include <algorithm>

#include "base/log.h"
#include "base/text.h"
#include "platform/clock.h"
#include "platform/machine.h"

namespace vrampool::service {
namespace {

constexpr std::uint16_t kOwnerRead = 0400, kOtherRead = 0004;
constexpr std::uint16_t kModeMask = 0666;
constexpr int kAbortAttemptsMax = 20;

Status check_tensors(const std::vector<std::unique_ptr<wire::TensorT>>& tensors, std::uint64_t bytes) {
  if (tensors.size() > kTensorsPerSegmentMax)
    return error(VP_INVALID, "{} tensors: a segment holds at most {}", tensors.size(), kTensorsPerSegmentMax);
  for (const auto& t : tensors) {
    if (!t || t->name.empty() || t->name.size() > kNameBytesMax)
      return error(VP_INVALID, "a tensor's name must have 1 to {} characters", kNameBytesMax);
    if (t->shape.size() > kTensorDimensionsMax)
      return error(VP_INVALID, "tensor \"{}\" has {} dimensions: at most {}", t->name, t->shape.size(),
                   kTensorDimensionsMax);
    if (t->offset > bytes || t->bytes > bytes - t->offset)
      return error(VP_INVALID, "tensor \"{}\" reaches beyond the segment", t->name);
  }
  return {};
}

}  // namespace

bool may_read(const Who& who, const wire::RecordT& r) {
  if (who.operator_rights || (who.principal == r.principal && (r.mode & kOwnerRead))) return true;
  return (r.mode & kOtherRead) != 0;
}

bool may_change(const Who& who, const wire::RecordT& r) { return who.operator_rights || who.principal == r.principal; }

Result<Record> Segments::find(const std::string& name, SegmentId id, const Who& who) const {
  const Record record = name.empty() ? members_.machine().find(id) : members_.machine().find_by_name(name);
  const std::string shown = name.empty() ? to_text(id) : name;
  if (!record || record->state == wire::SegmentState::deleted)
    return error(VP_NOT_FOUND, "no segment \"{}\" in this pool", shown);
  if (!may_read(who, *record))
    return error(VP_DENIED, "segment \"{}\" belongs to {} and is not readable by {}", shown, record->principal,
                 who.principal);
  return record;
}

// ---- create ----

Task<Result<std::vector<allocator::Candidate>>> Segments::candidates() {
  std::vector<std::pair<MemberNo, Reply<Result<Body>>>> asked;
  for (const auto& m : members_.machine().view().members) {
    if (m->state != wire::MemberState::alive) continue;
    const MemberNo member{m->member};
    asked.emplace_back(member, owner_.ask(member, body_of(wire::SpaceRequestT{})));
  }
  std::vector<allocator::Candidate> out;
  std::string why;
  for (auto& [member, reply] : asked) {
    Result<Body> answer = co_await reply;
    const auto* space = answer ? answer->AsSpaceReply() : nullptr;
    if (!space) {
      const auto* refused = answer ? answer->AsPieceReply() : nullptr;
      why = fmt::format("{}: {}", members_.name_of(member),
                        refused  ? refused->message
                        : answer ? "unexpected answer"
                                 : answer.error().message);
      log::warn("no room is known on {}", why);
      continue;
    }
    const std::uint64_t free = space->capacity - std::min(space->capacity, space->used);
    out.push_back(
        {member, members_.name_of(member), space->capacity, free, member == members_.machine().self() ? 0u : 1u});
  }
  if (out.empty()) co_return error(VP_NO_COORDINATOR, "no member can take data now{}{}", why.empty() ? "" : ": ", why);
  co_return out;
}

Result<allocator::PlacementRequest> Segments::placement_of(const CreateAsk& ask,
                                                           std::span<const allocator::Candidate> nodes) const {
  allocator::PlacementRequest p;
  VP_TRY(mode, allocator::parse_placement(ask.placement.empty() ? "spread" : ask.placement));
  p.mode = ask.nodes.empty() ? mode : allocator::PlacementMode::nodes;
  p.local = members_.machine().self();
  p.bytes = ask.bytes;
  p.cut_points = ask.cut_points;
  p.copies = ask.copies;
  if (p.mode == allocator::PlacementMode::nodes && ask.nodes.empty())
    return error(VP_INVALID, "placement \"nodes\" needs the names of nodes");
  for (const std::string& name : ask.nodes) {
    const auto at = std::find_if(nodes.begin(), nodes.end(), [&](const auto& n) { return n.name == name; });
    if (at == nodes.end())
      return error(VP_NOT_FOUND, "no node \"{}\" is alive in this pool: see `vrampool nodes`", name);
    p.nodes.push_back(at->member);
  }
  return p;
}

Result<wire::RecordT> Segments::draft(CreateAsk& ask, const Who& who) {
  VP_CHECK(check_name(ask.name));
  if (ask.kind != wire::SegmentKind::sealed)
    return error(VP_UNSUPPORTED, "coherent segments are not in this version: create a sealed one");
  if (ask.copies != 1) return error(VP_UNSUPPORTED, "replicas are not in this version: ask for one copy");
  if (ask.bytes == 0 || ask.bytes > kPoolSlotBytes / 2)
    return error(VP_INVALID, "a segment of {} bytes: it must have at least one and fit into the pool", ask.bytes);
  if (ask.mode & ~kModeMask) return error(VP_INVALID, "mode {:o} has bits other than read and write", ask.mode);
  ask.bytes = (ask.bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  VP_CHECK(check_tensors(ask.tensors, ask.bytes));
  if (const auto holder = members_.machine().find_by_name(ask.name); holder && !may_change(who, *holder))
    return error(VP_DENIED, "the name \"{}\" belongs to {}", ask.name, holder->principal);
  wire::RecordT r;
  r.id = members_.machine().next_segment_id();
  r.kind = ask.kind;
  r.name = ask.name;
  r.principal = who.principal;
  r.mode = ask.mode;
  r.bytes = ask.bytes;
  r.layout = ask.layout;
  r.creator = Sender{members_.machine().self(), members_.machine().life()};
  platform::random_bytes(&r.create_token, sizeof r.create_token);
  r.format = ask.format;
  r.tensors = std::move(ask.tensors);
  r.created_unix_ms = platform::unix_ms();
  return r;
}

Task<Result<Record>> Segments::create(CreateAsk ask, Who who) {
  Result<wire::RecordT> record = draft(ask, who);
  if (!record) co_return record.take_error();
  Result<std::vector<allocator::Candidate>> nodes = co_await candidates();
  if (!nodes) co_return nodes.take_error();
  Result<allocator::PlacementRequest> request = placement_of(ask, *nodes);
  if (!request) co_return request.take_error();
  const Result<std::vector<allocator::PlacedPiece>> placed = allocator::place(*request, *nodes);
  if (!placed) co_return placed.error();
  for (const allocator::PlacedPiece& p : *placed) {
    auto piece = std::make_unique<wire::PieceT>();
    piece->ordinal = p.ordinal;
    piece->node = p.member.value;
    piece->offset = p.offset;
    piece->bytes = p.bytes;
    piece->copy = p.copy;
    record->pieces.push_back(std::move(piece));
  }
  const Record draft_record = std::make_shared<const wire::RecordT>(std::move(*record));
  const Status reserved = co_await reserve(draft_record);
  if (!reserved) co_return reserved.error();
  Members::What what = membership::Create{*draft_record, false};
  Result<membership::CommandDone> done = co_await members_.run(std::move(what));
  if (!done) {
    // With an unknown outcome the record may stand: then removing it frees the pieces too.
    if (done.error().code == VP_UNKNOWN_OUTCOME || done.error().code == VP_TIMEOUT)
      static_cast<void>(co_await abort(draft_record->id));
    co_await unreserve(draft_record);
    co_return done.take_error();
  }
  data_.open_record(done->record);
  log::info("segment {} \"{}\" is being created by {}, {} in {} pieces", to_text(done->record->id), done->record->name,
            who.principal, format_bytes(done->record->bytes), done->record->pieces.size());
  co_return done->record;
}

// Asks the host of every piece at once; `take` sees the answers in the order of pieces. The first error wins.
Task<Status> Segments::for_each_piece(Record record, MakeAsk make, TakeReply take) {
  std::vector<Reply<Result<Body>>> asked;
  for (const auto& piece : record->pieces) asked.push_back(owner_.ask(MemberNo{piece->node}, make(*piece)));
  Status first;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    Result<Body> answer = co_await asked[i];
    auto* reply = answer ? answer->AsPieceReply() : nullptr;
    const std::string host = members_.name_of(MemberNo{record->pieces[i]->node});
    if (!reply) {
      if (first)
        first = answer ? error(VP_CORRUPT, "{} gave an unexpected answer", host)
                       : error(answer.error().code, "{}: {}", host, answer.error().message);
    } else if (reply->status != VP_OK) {
      if (first) first = Error{static_cast<vp_status>(reply->status), host + ": " + reply->message};
    } else if (take) {
      take(i, *reply);
    }
  }
  co_return first;
}

Task<Status> Segments::reserve(Record record) {
  const MakeAsk make = [record](const wire::PieceT& piece) {
    wire::PieceCreateT ask;
    ask.segment = record->id;
    ask.token = record->create_token;
    ask.piece = std::make_unique<wire::PieceT>(piece);
    ask.mode = record->mode;
    ask.principal = record->principal;
    return body_of(std::move(ask));
  };
  Status reserved = co_await for_each_piece(record, make, nullptr);
  if (!reserved) co_await unreserve(record);
  co_return reserved;
}

Task<> Segments::unreserve(Record record) {
  const MakeAsk make = [record](const wire::PieceT& piece) {
    wire::PieceFreeT ask;
    ask.segment = record->id;
    ask.ordinal = piece.ordinal;
    return body_of(std::move(ask));
  };
  // A host that does not answer frees the piece itself, as it has no record.
  static_cast<void>(co_await for_each_piece(record, make, nullptr));
}

// ---- seal ----

Task<Result<Record>> Segments::seal(SegmentId id, std::unique_ptr<wire::RecordT> parts) {
  const Record record = members_.machine().find(id);
  if (!record || record->state == wire::SegmentState::deleted)
    co_return error(VP_NOT_FOUND, "segment {} does not exist any more", to_text(id));
  if (record->state == wire::SegmentState::sealed) co_return record;  // asked twice
  const auto sealed = std::make_shared<wire::RecordT>(parts ? wire::RecordT(*parts) : wire::RecordT(*record));
  sealed->id = id;
  sealed->pieces.clear();
  for (const auto& piece : record->pieces) sealed->pieces.push_back(std::make_unique<wire::PieceT>(*piece));
  const MakeAsk freeze = [record](const wire::PieceT& piece) {
    wire::PieceFreezeT ask;
    ask.segment = record->id;
    ask.token = record->create_token;
    ask.ordinal = piece.ordinal;
    return body_of(std::move(ask));
  };
  const TakeReply keep_hash = [sealed](std::size_t i, wire::PieceReplyT& reply) {
    sealed->pieces[i]->sha256 = std::move(reply.sha256);
  };
  const Status frozen = co_await for_each_piece(record, freeze, keep_hash);
  if (!frozen) co_return frozen.error();
  Members::What what = membership::Seal{*sealed, true, false};
  Result<membership::CommandDone> done = co_await members_.run(std::move(what));
  if (!done) co_return done.take_error();
  const Record committed = done->record;
  const MakeAsk make_seal = [committed](const wire::PieceT& piece) {
    wire::PieceSealT ask;
    ask.segment = committed->id;
    ask.ordinal = piece.ordinal;
    return body_of(std::move(ask));
  };
  // The record is what decides: a host that missed this seals when it sees the record.
  const Status everywhere = co_await for_each_piece(committed, make_seal, nullptr);
  if (!everywhere) log::warn("segment {}: sealed, but {}", to_text(id), everywhere.error().message);
  data_.open_record(committed);
  log::info("segment {} \"{}\" is sealed", to_text(id), committed->name);
  co_return committed;
}

// ---- abort, remove, rename ----

Task<Status> Segments::abort(SegmentId id) {
  for (int attempt = 0; attempt < kAbortAttemptsMax; ++attempt) {
    const Record record = members_.machine().find(id);
    if (record && record->state != wire::SegmentState::creating) co_return Status{};
    Members::What what = membership::Remove{id};
    const Result<membership::CommandDone> done = co_await members_.run(std::move(what));
    if (done || done.error().code == VP_NOT_FOUND) {
      log::info("segment {}: its creation was dropped", to_text(id));
      co_return Status{};
    }
    if (attempt == 0)
      log::warn("segment {}: its creation cannot be dropped yet: {}", to_text(id), done.error().message);
    co_await loop_.sleep(Duration::seconds(1));
  }
  co_return error(VP_TIMEOUT, "segment {}: the coordinator did not drop it; it goes when this daemon restarts",
                  to_text(id));
}

Task<Status> Segments::remove(SegmentId id) {
  Members::What what = membership::Remove{id};
  const Result<membership::CommandDone> done = co_await members_.run(std::move(what));
  if (!done) co_return done.error();
  log::info("segment {} was removed", to_text(id));
  co_return Status{};
}

Task<Status> Segments::rename(std::string from, std::string to, Who who) {
  if (const Status good = check_name(to); !good) co_return good;
  const Result<Record> record = find(from, {}, who);
  if (!record) co_return record.error();
  if (!may_change(who, **record))
    co_return error(VP_DENIED, "segment \"{}\" belongs to {}", from, (*record)->principal);
  Members::What what = membership::Rename{(*record)->id, to};
  const Result<membership::CommandDone> done = co_await members_.run(std::move(what));
  if (!done) co_return done.error();
  co_return Status{};
}

}  // namespace vrampool::service
