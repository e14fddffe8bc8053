// How a term is won: promises of a quorum, the registry of the member that is furthest, a stamp in the new term.
#include <algorithm>

#include "base/mark.h"
#include "membership/core.h"

namespace vrampool::membership {

inline constexpr std::size_t kIdsPerFetch = 256;

// The stamp of every take-over carries its term: whoever stands there and promised nothing higher was coordinator.
bool Core::led_before() const {
  return self_.value != 0 && promise_.member == self_ && registry_.position().term.member == self_;
}

void Core::campaign(Candidate candidate, std::uint64_t count) {
  if (role_ == Role::leader) become_follower({count, self_});
  heard_coordinator_.reset();
  echo_ns_ = 0;
  lease_until_ = std::min(lease_until_, now_);
  staging_.reset();
  probe_until_.reset();
  role_ = Role::candidate;
  candidate_ = std::move(candidate);
  promise_ = Term{count, self_};
  AfterDurable after;
  after.promise = promise_;
  persist({SetPromise{promise_}}, std::move(after));
}

MemberSet Core::candidate_targets() const {
  MemberSet targets = members_of(registry_.tail_roster());
  for (const auto& [member, promise] : candidate_.promises) targets.merge(members_of(promise.roster));
  for (const MemberNo gone : candidate_.abandoned) targets.erase(gone);
  targets.erase(self_);
  return targets;
}

void Core::ask_promises() {
  candidate_.resend_at = now_ + kAskAgainAfter;
  for (const MemberNo member : candidate_targets()) {
    if (candidate_.promises.contains(member)) continue;
    wire::PromiseAskT ask;
    ask.automatic = candidate_.automatic;
    ask.previous = candidate_.previous;
    tell(member, std::move(ask));
  }
}

void Core::on_promise_ask(const wire::MembershipMessageT& m) {
  const wire::PromiseAskT& ask = *m.body.AsPromiseAsk();
  const MemberNo from = m.from.member;
  if (m.term.member != from) return;
  if (m.term < promise_) {
    VP_MARK(promise_refused);
    return refuse(from, false);
  }
  // A coordinator that restarted may not unseat the one that followed it; a person may.
  if (ask.automatic && coordinator_alive() && promise_.member != from && promise_ > ask.previous) {
    VP_MARK(automatic_campaign_refused);
    return refuse(from, false);
  }
  AfterDurable after;
  std::vector<DurableOp> ops;
  if (m.term > promise_) {
    become_follower(m.term);
    promise_ = after.promise = m.term;
    ops.push_back(SetPromise{m.term});
  } else if (role_ != Role::follower) {
    return;
  }
  wire::PromiseT promise;
  promise.digest = std::make_unique<wire::DigestT>(registry_.digest());
  promise.roster = std::make_unique<wire::RosterT>(registry_.tail_roster());
  promise.view = std::make_unique<wire::ViewT>(registry_.tail_view());
  if (VP_BUG(4)) tell(from, promise);
  if (!VP_BUG(4)) after.sends.push_back({from, message(from, std::move(promise))});
  persist(std::move(ops), std::move(after));
}

void Core::on_promise(const wire::MembershipMessageT& m) {
  const wire::PromiseT& promise = *m.body.AsPromise();
  if (role_ != Role::candidate || m.term != promise_ || !promise.digest || !promise.roster || !promise.view) return;
  if (candidate_.abandoned.contains(m.from.member)) return;
  candidate_.promises[m.from.member] = {m.from.life, *promise.digest, *promise.roster, *promise.view};
  try_win();
}

void Core::tick_candidate() {
  if (!candidate_.self_durable) return;
  if (candidate_.command && now_ >= candidate_.deadline)
    return fail_campaign(
        VP_TIMEOUT,
        fmt::format("no answer of member {}: start it, or use --force and name it as abandoned", missing_promises()));
  if (now_ < candidate_.resend_at) return;
  if (candidate_.highest_seen > promise_) {
    VP_MARK(campaign_again_with_higher_term);
    Candidate again;
    again.automatic = candidate_.automatic;
    again.force = candidate_.force;
    again.abandoned = candidate_.abandoned;
    again.previous = candidate_.previous;
    again.command = candidate_.command;
    again.deadline = candidate_.deadline;
    return campaign(std::move(again), candidate_.highest_seen.count + 1);
  }
  ask_promises();
  if (!candidate_.fetching) return;
  if (now_ < candidate_.fetch_deadline) return ask_fetch();
  VP_MARK(fetch_source_lost);
  candidate_.promises.erase(candidate_.best);
  candidate_.fetching = false;
  try_win();
}

void Core::fail_campaign(vp_status code, const std::string& text) {
  const std::optional<std::uint64_t> command = std::exchange(candidate_.command, std::nullopt);
  become_follower(promise_);
  if (command) done(*command, code, text);
}

const wire::DigestT* Core::digest_of(MemberNo member) const {
  const auto at = candidate_.promises.find(member);
  return at == candidate_.promises.end() ? nullptr : &at->second.digest;
}

const wire::RosterT& Core::roster_of(MemberNo member) const {
  return member == self_ ? registry_.tail_roster() : candidate_.promises.at(member).roster;
}

// Every committed change was acknowledged by a quorum, so the furthest of any quorum has them all.
MemberNo Core::most_advanced() const {
  MemberNo best = self_;
  RecordVersion position = registry_.position();
  for (const auto& [member, promise] : candidate_.promises) {
    if (promise.digest.position <= position || VP_BUG(16)) continue;
    best = member;
    position = promise.digest.position;
  }
  return best;
}

// Whom a forced promotion does without: the named, and newcomers that have not arrived.
MemberSet Core::given_up(const wire::RosterT& roster) const {
  MemberSet gone = candidate_.abandoned;
  for (const auto& entry : roster.entries)
    if (entry->joining && !candidate_.promises.contains(MemberNo{entry->member})) gone.insert(MemberNo{entry->member});
  return gone;
}

// By force a candidate needs every member that it does not abandon: then nothing of theirs is lost.
bool Core::has_quorum(const wire::RosterT& roster) const {
  MemberSet promised{self_};
  for (const auto& [member, promise] : candidate_.promises) promised.insert(member);
  if (!candidate_.force) return is_quorum(roster, promised);
  const MemberSet needed = members_of(without(roster, given_up(roster), self_));
  return std::includes(promised.begin(), promised.end(), needed.begin(), needed.end());
}

std::string Core::missing_promises() const {
  std::string names;
  for (const MemberNo member : candidate_targets())
    if (!candidate_.promises.contains(member)) names += fmt::format("{}{}", names.empty() ? "" : ", ", member.value);
  return names;
}

void Core::try_win() {
  if (!candidate_.self_durable || candidate_.fetching) return;
  candidate_.best = most_advanced();
  const wire::RosterT& roster = roster_of(candidate_.best);
  if (find_member(roster, self_) == nullptr || !has_quorum(roster)) return;
  const wire::ViewT& view =
      candidate_.best == self_ ? registry_.tail_view() : candidate_.promises.at(candidate_.best).view;
  const auto* line = find_member(view, self_);
  if (line != nullptr && line->life >= options_.life.value && !is_alive(view, {self_, options_.life})) {
    VP_MARK(candidate_was_declared_dead);
    return retire(false);
  }
  candidate_.quorum_at = now_;
  begin_fetch();
}

void Core::begin_fetch() {
  candidate_.wanted.clear();
  candidate_.fetched.clear();
  if (const wire::DigestT* digest = digest_of(candidate_.best)) {
    for (const auto& line : digest->lines) {
      const RecordRef own = registry_.tail_find(line->id);
      if (!own || own->version != line->version) candidate_.wanted.insert(line->id);
    }
  }
  if (candidate_.wanted.empty()) return take_over();
  VP_MARK(take_over_fetches);
  candidate_.fetching = true;
  candidate_.fetch_deadline = now_ + options_.detection;
  ask_fetch();
}

void Core::ask_fetch() {
  wire::FetchT fetch;
  for (const SegmentId& id : candidate_.wanted) {
    if (fetch.ids.size() >= kIdsPerFetch) break;
    fetch.ids.push_back(std::make_unique<wire::SegmentKeyT>());
    fetch.ids.back()->id = id;
  }
  tell(candidate_.best, std::move(fetch));
}

void Core::on_fetched(MemberNo from, const wire::FetchedT& fetched) {
  if (role_ != Role::candidate || !candidate_.fetching || from != candidate_.best) return;
  bool progress = false;
  for (const auto& record : fetched.records) {
    if (candidate_.wanted.erase(record->id) == 0) continue;
    candidate_.fetched[record->id] = std::make_shared<const wire::RecordT>(*record);
    progress = true;
  }
  if (!progress) return;
  candidate_.fetch_deadline = now_ + options_.detection;
  if (candidate_.wanted.empty()) return take_over();
  ask_fetch();
}

// The difference between our own tail and the registry of the furthest member, stamped with the new term.
wire::ChangeT Core::take_over_change() const {
  wire::ChangeT change;
  change.reset = true;
  const wire::DigestT* digest = digest_of(candidate_.best);
  const RecordVersion from = digest != nullptr ? digest->position : registry_.position();
  change.version = {promise_, from.seq + 1};
  if (digest != nullptr) {
    std::set<SegmentId> kept;
    for (const auto& line : digest->lines) kept.insert(line->id);
    for (const auto& [id, record] : registry_.tail_records()) {
      if (kept.contains(id)) continue;
      VP_MARK(take_over_drops_uncommitted);
      change.erased.push_back(std::make_unique<wire::SegmentKeyT>());
      change.erased.back()->id = id;
    }
    for (const auto& [id, record] : candidate_.fetched)
      change.records.push_back(std::make_unique<wire::RecordT>(*record));
    change.roster = std::make_unique<wire::RosterT>(roster_of(candidate_.best));
    change.view = std::make_unique<wire::ViewT>(candidate_.promises.at(candidate_.best).view);
  }
  if (candidate_.force) {
    change.roster = std::make_unique<wire::RosterT>(
        without(roster_of(candidate_.best), given_up(roster_of(candidate_.best)), self_));
    change.roster->version = change.version;
  }
  return change;
}

void Core::take_over() {
  auto change = std::make_shared<wire::ChangeT>(take_over_change());
  const Candidate won = std::exchange(candidate_, {});
  std::vector<DurableOp> ops;
  AfterDurable after;
  after.position = change->version;
  registry_.append(change, ops);
  const bool alone = members_of(registry_.tail_roster()).size() == 1;
  start_leading(change->version, alone || VP_BUG(8) ? now_ : won.quorum_at + options_.detection);
  if (won.command) leader_.promote_command = won.command;
  for (const auto& [member, promise] : won.promises) {
    Peer& peer = leader_.peers[member];
    peer.life = promise.life;
    peer.heard = now_;
    peer.digest = promise.digest;
  }
  persist(std::move(ops), std::move(after));
}

void Core::start_leading(RecordVersion stamp, Instant fence_until) {
  role_ = Role::leader;
  leader_ = {};
  leader_.started = leader_.last_tick = now_;
  leader_.fence_until = fence_until;
  leader_.stamp = leader_.log_base = stamp;
  VP_MARK(became_coordinator);
  out_->push_back(BecameCoordinator{promise_});
}

}  // namespace vrampool::membership
