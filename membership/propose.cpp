// What commands do to records. Decisions are made on the tail (with what is not committed yet); an answer waits for the
// commit of everything that the decision rests on.
#include <algorithm>
#include <cctype>

#include "base/mark.h"
#include "base/text.h"
#include "membership/core.h"

namespace vrampool::membership {

using wire::ProposalKind;
using wire::SegmentState;

void Core::on_ask(const wire::MembershipMessageT& m) {
  const wire::AskT& ask = *m.body.AsAsk();
  if (m.term < promise_ || !ask.proposal) return;  // it will hear of our term and ask again
  on_proposal(m.from, ask);
}

void Core::on_proposal(Sender asker, const wire::AskT& ask) {
  wire::AnswerT no;
  no.to = asker;
  no.request = ask.request;
  const auto refuse_with = [&](vp_status code, const char* text) {
    no.status = code;
    no.message = text;
    if (asker.member == self_) return on_answer(no);
    tell(asker.member, std::move(no));
  };
  if (!open() && role_ != Role::leader)
    return refuse_with(VP_NO_COORDINATOR, "this node does not coordinate: see `vrampool status`");
  if (leader_.recovering || !open())
    return refuse_with(VP_RECOVERING, "a coordinator is taking over: try again in a moment");
  if (!has_authority(now_))
    return refuse_with(VP_NO_COORDINATOR, "the coordinator does not hear a majority: see `vrampool status`");
  if (!is_alive(registry_.tail_view(), asker)) {
    VP_MARK(ask_of_no_live_member);
    return;
  }
  Asker& known = leader_.askers[asker.member];
  if (asker.life > known.life) known = Asker{asker.life, 0, {}};
  known.done_up_to = std::max(known.done_up_to, ask.done_up_to);
  known.requests.erase(known.requests.begin(), known.requests.upper_bound(known.done_up_to));
  if (ask.request <= known.done_up_to) return;
  const auto at = known.requests.find(ask.request);
  if (at != known.requests.end()) {
    VP_MARK(ask_repeated);
    if (at->second) reply(asker, ask.request, wire::AnswerT(*at->second));
    return;
  }
  if (registry_.pending().size() >= kChangesInFlightMax || known.requests.size() >= kAsksMax)
    return refuse_with(VP_BUSY, "too many changes are under way: try again in a moment");
  known.requests[ask.request] = std::nullopt;
  carry_out(asker, ask.request, *ask.proposal);
}

void Core::carry_out(Sender asker, std::uint64_t request, const wire::ProposalT& proposal) {
  Decision decision = decide(asker.member, proposal);
  if (decision.park && leader_.parked.size() >= kParkedMax) {
    decision = Decision{};
    decision.code = VP_BUSY;
    decision.message = "too many changes of the roster are under way: try again in a moment";
  }
  if (decision.changes) propose(std::move(decision.change));
  if (decision.park) {
    leader_.parked.push_back({asker, request, proposal});
    return;
  }
  wire::AnswerT answer = answer_of(decision, request);
  if (decision.code != VP_OK) return reply(asker, request, std::move(answer));
  leader_.waiters.emplace(registry_.position(), Waiter{asker, request, std::move(answer)});
  try_commit();
  answer_waiters();
}

wire::AnswerT Core::answer_of(const Decision& decision, std::uint64_t request) const {
  wire::AnswerT answer;
  answer.request = request;
  answer.status = decision.code;
  answer.message = decision.message;
  answer.member = decision.member.value;
  if (decision.member.value != 0) answer.roster = std::make_unique<wire::RosterT>(registry_.tail_roster());
  if (const RecordRef record = registry_.tail_find(decision.record))
    answer.record = std::make_unique<wire::RecordT>(*record);
  return answer;
}

// To the life that asked: the numbers of another life's requests mean something else.
void Core::reply(Sender asker, std::uint64_t request, wire::AnswerT answer) {
  Asker& known = leader_.askers[asker.member];
  if (known.life != asker.life) {
    VP_MARK(answer_for_an_earlier_life);
    return;
  }
  answer.to = asker;
  answer.request = request;
  const auto at = known.requests.find(request);
  if (at != known.requests.end()) at->second = answer;
  if (asker.member == self_) return on_answer(answer);
  tell(asker.member, std::move(answer));
}

void Core::put(wire::ChangeT& change, wire::RecordT record) const {
  record.version = change.version;
  change.records.push_back(std::make_unique<wire::RecordT>(std::move(record)));
}

Core::Decision Core::decide(MemberNo asker, const wire::ProposalT& p) {
  Decision d;
  switch (p.kind) {
    case ProposalKind::create:
      d = decide_create(asker, p);
      break;
    case ProposalKind::seal:
      d = decide_seal(p);
      break;
    case ProposalKind::rename:
      d = decide_rename(p);
      break;
    case ProposalKind::remove:
      d = decide_remove(p);
      break;
    case ProposalKind::update:
      d = decide_update(p);
      break;
    case ProposalKind::freed:
      d = decide_freed(asker, p);
      break;
    case ProposalKind::admit:
      d = decide_admit(p);
      break;
    case ProposalKind::forget:
      d = decide_forget(asker, p);
      break;
    default:
      d = fail(VP_UNSUPPORTED, "the coordinator does not know this kind of change: update it");
      break;
  }
  d.change.version = next_version();
  return d;
}

Core::Decision Core::fail(vp_status code, std::string text) {
  Decision d;
  d.code = code;
  d.message = std::move(text);
  return d;
}

namespace {
bool equal_but_for_case(const std::string& a, const std::string& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}
}  // namespace

// Two names may not differ by case alone: file systems of some members could not show both.
Core::Decision Core::check_new_name(const std::string& name, const SegmentId& id, bool published_counts) const {
  if (Status status = check_name(name); !status) return fail(status.error().code, status.error().message);
  for (const auto& [other, record] : registry_.tail_records()) {
    if (other == id || record->state == SegmentState::deleted || !equal_but_for_case(record->name, name)) continue;
    if (record->name != name)
      return fail(VP_EXISTS, fmt::format("name {} differs from {} only by case: choose another", name, record->name));
    if (record->state == SegmentState::creating)
      return fail(VP_EXISTS, fmt::format("name {} is being created by another job: wait or cancel it", name));
    if (published_counts)
      return fail(VP_EXISTS, fmt::format("name {} is taken: remove it first, or import over it", name));
  }
  return {};
}

Core::Decision Core::check_pieces(const wire::RecordT& record) const {
  if (record.pieces.size() > kPiecesPerSegmentMax)
    return fail(VP_INVALID, fmt::format("{}: more than {} pieces", record.name, kPiecesPerSegmentMax));
  const MemberSet alive = alive_members(registry_.tail_view());
  for (const auto& piece : record.pieces)
    if (!alive.contains(MemberNo{piece->node}))
      return fail(VP_STALE, fmt::format("{}: member {} is not alive: place it anew", record.name, piece->node));
  return {};
}

Core::Decision Core::decide_create(MemberNo asker, const wire::ProposalT& p) {
  if (!p.record || p.record->id.member != asker || p.record->bytes > kPoolSlotBytes)
    return fail(VP_INVALID, "create: no record, a foreign id, or too large");
  if (const RecordRef known = registry_.tail_find(p.record->id)) {
    VP_MARK(create_found_its_own);
    if (known->state == SegmentState::deleted)
      return fail(VP_STALE, fmt::format("{}: was removed meanwhile", known->name));
    if (VP_BUG(11)) return fail(VP_EXISTS, "bug");
    Decision d;
    d.record = known->id;
    return d;
  }
  if (below_floor(registry_.tail_roster(), p.record->id)) {
    VP_MARK(create_came_too_late);
    return fail(VP_STALE, fmt::format("{}: was removed meanwhile", p.record->name));
  }
  if (registry_.tail_records().size() >= kRecordsMax)
    return fail(VP_NO_SPACE, fmt::format("{} segments exist: remove some", kRecordsMax));
  Decision d = check_new_name(p.record->name, p.record->id, p.expect_absent);
  if (d.code == VP_OK) d = check_pieces(*p.record);
  if (d.code != VP_OK) return d;
  d.change.version = next_version();
  wire::RecordT record = *p.record;
  record.state = SegmentState::creating;
  record.tombstone_waits_for.clear();
  if (!give_address(record, d.change)) return fail(VP_NO_SPACE, "no pool addresses are left");
  d.changes = true;
  d.record = record.id;
  put(d.change, std::move(record));
  return d;
}

// A slot is issued once, to one term; inside it the coordinator counts up.
bool Core::give_address(wire::RecordT& record, wire::ChangeT& change) {
  const std::uint64_t bytes = (record.bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  if (!leader_.slot || leader_.slot_used + bytes > kPoolSlotBytes) {
    if (registry_.tail_roster().next_slot == UINT16_MAX) return false;
    VP_MARK(slot_issued);
    change.roster = std::make_unique<wire::RosterT>(registry_.tail_roster());
    leader_.slot = VP_BUG(14) ? 1 : change.roster->next_slot++;
    leader_.slot_used = 0;
  }
  record.address = (std::uint64_t{*leader_.slot} << 48) | leader_.slot_used;
  leader_.slot_used += bytes;
  return true;
}

// Publishes; the segment that had the name goes in the same change, so at no time two have it or none.
Core::Decision Core::decide_seal(const wire::ProposalT& p) {
  const RecordRef known = registry_.tail_find(p.id);
  if (!known || known->state == SegmentState::deleted)
    return fail(VP_STALE, fmt::format("segment {}: was removed", to_text(p.id)));
  Decision d;
  d.record = p.id;
  if (is_published(*known)) return d;
  d.change.version = next_version();
  wire::RecordT record = *known;
  if (p.record) {
    if (Decision bad = check_pieces(*p.record); bad.code != VP_OK) return bad;
    take_parts(record, *p.record);
  }
  record.state = known->kind == wire::SegmentKind::coherent ? SegmentState::coherent : SegmentState::sealed;
  for (const auto& [id, other] : registry_.tail_records()) {
    if (id == p.id || !is_published(*other) || other->name != record.name || VP_BUG(13)) continue;
    VP_MARK(name_swapped);
    record.replaces = id;
    wire::RecordT old = p.keep_replaced ? *other : tombstone_of(*other, registry_.tail_roster());
    if (p.keep_replaced) old.name.clear();
    put(d.change, std::move(old));
  }
  put(d.change, std::move(record));
  d.changes = true;
  return d;
}

Core::Decision Core::decide_rename(const wire::ProposalT& p) {
  const RecordRef known = registry_.tail_find(p.id);
  if (!known || known->state == SegmentState::deleted)
    return fail(VP_STALE, fmt::format("segment {}: was removed", to_text(p.id)));
  Decision d;
  d.record = p.id;
  if (known->name == p.name) return d;
  if (Decision bad = check_new_name(p.name, p.id, true); bad.code != VP_OK) return bad;
  d.change.version = next_version();
  wire::RecordT record = *known;
  record.name = p.name;
  put(d.change, std::move(record));
  d.changes = true;
  return d;
}

// Removed is removed: what is not there needs no second removal.
Core::Decision Core::decide_remove(const wire::ProposalT& p) {
  const RecordRef known = registry_.tail_find(p.id);
  Decision d;
  d.record = p.id;
  if (!known || known->state == SegmentState::deleted) return d;
  d.change.version = next_version();
  put(d.change, tombstone_of(*known, registry_.tail_roster()));
  d.changes = true;
  return d;
}

Core::Decision Core::decide_update(const wire::ProposalT& p) {
  const RecordRef known = p.record ? registry_.tail_find(p.record->id) : nullptr;
  if (!known || known->state == SegmentState::deleted) return fail(VP_STALE, "update: the segment was removed");
  if (Decision bad = check_pieces(*p.record); bad.code != VP_OK) return bad;
  Decision d;
  d.record = known->id;
  d.change.version = next_version();
  wire::RecordT record = *known;
  record.tombstone_waits_for =
      hosts_of(*known, registry_.tail_roster());  // those the pieces leave are asked too, one day
  record.pieces = wire::RecordT(*p.record).pieces;
  record.layout_version = std::max(known->layout_version + 1, p.record->layout_version);
  record.autoload = p.record->autoload;
  record.mode = p.record->mode;
  record.principal = p.record->principal;
  put(d.change, std::move(record));
  d.changes = true;
  return d;
}

Core::Decision Core::decide_freed(MemberNo asker, const wire::ProposalT& p) {
  const RecordRef known = registry_.tail_find(p.id);
  if (!known) return {};
  if (known->state != SegmentState::deleted)
    return fail(VP_INVALID, fmt::format("{}: is not removed, its pieces stay", known->name));
  wire::RecordT stone = *known;
  if (std::erase(stone.tombstone_waits_for, asker.value) == 0) return {};
  Decision d;
  d.changes = true;
  d.change.version = next_version();
  if (stone.tombstone_waits_for.empty() || VP_BUG(15)) {
    VP_MARK(tombstone_erased);
    erase(d.change, p.id);
  } else {
    put(d.change, std::move(stone));
  }
  return d;
}

}  // namespace vrampool::membership
