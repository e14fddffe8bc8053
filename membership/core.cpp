// One step: what came in, what waits for the disk, and the changes of role.
#include "membership/core.h"

#include <algorithm>

#include "base/mark.h"

namespace vrampool::membership {

Core::Core(Options options, DurableState state, Instant now)
    : options_(options),
      pool_(state.pool),
      self_(state.self),
      registry_(state),
      promise_(state.promise),
      durable_promise_(state.promise),
      durable_position_(registry_.position()),
      last_heard_(now),
      now_(now) {
  if (led_before()) probe_until_ = members_of(registry_.tail_roster()).size() > 1 ? now + kProbeFor : now;
}

void Core::step(const Input& input, Instant now, Outbox& out) {
  now_ = std::max(now, now_);
  out_ = &out;
  check_lease();  // first of all: on waking, rights end before anything is said
  if (const auto* command = std::get_if<Command>(&input)) {
    on_command(*command);
  } else if (const auto* persisted = std::get_if<Persisted>(&input)) {
    on_persisted(persisted->no);
  } else if (inert_ || self_.value == 0 || promise_ != durable_promise_) {
    // Says nothing more, knows nobody yet, or waits for its disk: whatever came will come again.
  } else if (const auto* peer = std::get_if<PeerMessage>(&input)) {
    dispatch(peer->message);
  } else {
    on_tick();
  }
  check_lease();
  out_ = nullptr;
}

void Core::dispatch(const wire::MembershipMessageT& m) {
  using Body = wire::MembershipBody;
  if (m.to != self_.value || m.body.value == nullptr || m.from.member == self_) return;
  if (!admit_sender(m)) return;
  switch (m.body.type) {
    case Body::Heartbeat:
      return on_heartbeat(m);
    case Body::PromiseAsk:
      return on_promise_ask(m);
    case Body::Promise:
      return on_promise(m);
    case Body::Fetched:
      return on_fetched(m.from.member, *m.body.AsFetched());
    case Body::DigestReply:
      return on_digest_reply(m);
    case Body::SyncAck:
      return on_sync_ack(m);
    case Body::Appended:
      return on_appended(m);
    case Body::Ask:
      return on_ask(m);
    case Body::Answer:
      return on_answer(*m.body.AsAnswer());
    case Body::Refused:
      return on_refused(m.from.member, *m.body.AsRefused());
    default:
      break;
  }
  if (!from_coordinator(m)) return;
  switch (m.body.type) {
    case Body::Lease:
      return on_lease(*m.body.AsLease());
    case Body::Append:
      return on_append(m.from.member, *m.body.AsAppend());
    case Body::DigestAsk:
      return on_digest_ask(m.from.member, *m.body.AsDigestAsk());
    case Body::Sync:
      return on_sync(m.from.member, *m.body.AsSync());
    case Body::Fetch:
      return on_fetch(m.from.member, *m.body.AsFetch());
    default:
      return;
  }
}

// Is the sender on the roster, and is it the machine that we know by that number?
bool Core::admit_sender(const wire::MembershipMessageT& m) {
  for (const wire::RosterT* roster : {&registry_.tail_roster(), &registry_.roster()}) {
    const auto* entry = find_member(*roster, m.from.member);
    if (entry != nullptr && entry->node == m.node) return true;
  }
  if (m.from.member.value >= registry_.tail_roster().next_member) {
    VP_MARK(message_of_later_member);  // joined while we were away; it may even coordinate now
    return true;
  }
  const auto* entry = find_member(registry_.roster(), m.from.member);
  if (entry != nullptr || was_forgotten(registry_.roster(), m.from.member)) {
    VP_MARK(message_of_forgotten_member);
    refuse(m.from.member, true);
  }
  return false;
}

// Orders of a coordinator or candidate: lower terms are refused, a higher one is promised first.
bool Core::from_coordinator(const wire::MembershipMessageT& m) {
  if (m.term.member != m.from.member) return false;
  if (m.term < promise_ && !VP_BUG(3)) {
    VP_MARK(lower_term_refused);
    refuse(m.from.member, false);
    return false;
  }
  if (m.term > promise_) {
    VP_MARK(higher_term_adopted);
    adopt_term(m.term);
    return false;
  }
  return role_ == Role::follower;
}

void Core::refuse(MemberNo to, bool forgotten) {
  wire::RefusedT refused;
  refused.term = promise_;
  refused.established = coordinator_alive();
  refused.forgotten = forgotten;
  tell(to, std::move(refused));
}

bool Core::coordinator_alive() const {
  if (role_ == Role::leader) return open() && has_authority(now_);
  return role_ == Role::follower && heard_coordinator_ && now_ - *heard_coordinator_ <= options_.detection;
}

void Core::on_tick() {
  switch (role_) {
    case Role::follower:
      tick_follower();
      break;
    case Role::candidate:
      tick_candidate();
      break;
    case Role::leader:
      tick_leader();
      break;
  }
  if (!inert_) tick_asks();
}

void Core::adopt_term(Term term) {
  become_follower(term);
  promise_ = term;
  AfterDurable after;
  after.promise = term;
  persist({SetPromise{term}}, std::move(after));
}

void Core::become_follower(Term by) {
  if (role_ == Role::leader) {
    out_->push_back(Deposed{by});
    if (leader_.promote_command)
      done(*leader_.promote_command, VP_BUSY, "another node was promoted at the same time: see `vrampool status`");
    lease_until_ = now_;
    leader_ = {};
  }
  if (role_ == Role::candidate) {
    if (candidate_.command)
      done(*candidate_.command, VP_BUSY, "another node was promoted at the same time: see `vrampool status`");
    candidate_ = {};
  }
  role_ = Role::follower;
  heard_coordinator_.reset();
  echo_ns_ = 0;
  staging_.reset();
  probe_until_.reset();
}

void Core::persist(std::vector<DurableOp> ops, AfterDurable after, bool sync) {
  after.no = ++persists_;
  out_->push_back(Persist{after.no, std::move(ops), sync});
  after_durable_.push_back(std::move(after));
}

void Core::on_persisted(std::uint64_t no) {
  while (!after_durable_.empty() && after_durable_.front().no <= no) {
    AfterDurable after = std::move(after_durable_.front());
    after_durable_.pop_front();
    durable_promise_ = std::max(durable_promise_, after.promise);
    durable_position_ = std::max(durable_position_, after.position);
    if (inert_) continue;
    for (Send& waiting : after.sends) out_->push_back(std::move(waiting));
    if (after.done) out_->push_back(std::move(*after.done));
  }
  if (inert_ || promise_ != durable_promise_) return;
  if (role_ == Role::candidate && !candidate_.self_durable) {
    candidate_.self_durable = true;
    ask_promises();
    try_win();
  }
  if (role_ == Role::leader && open()) {
    replicate_all();
    update_view();
    try_commit();
  }
}

void Core::on_command(const Command& command) {
  if (inert_) return done(command.no, VP_STALE, "this daemon was declared dead and must start anew");
  if (const auto* init = std::get_if<Init>(&command.what)) return command_init(command.no, *init);
  if (self_.value == 0)
    return done(command.no, VP_NO_COORDINATOR,
                "this node belongs to no pool yet: run `vrampool init` or `vrampool join`");
  if (const auto* promote = std::get_if<Promote>(&command.what)) return command_promote(command.no, *promote);
  start_ask(command.no, proposal_of(command, self_));
}

void Core::command_init(std::uint64_t no, const Init& init) {
  if (self_.value != 0) return done(no, VP_EXISTS, "this node belongs to a pool already");
  pool_ = init.pool;
  self_ = MemberNo{1};
  promise_ = Term{1, self_};
  auto entry = std::make_unique<wire::RosterEntryT>();
  entry->member = self_.value;
  entry->node = to_wire(options_.node);
  entry->name = init.name;
  entry->addresses = init.addresses;
  entry->machine = init.machine;
  auto change = std::make_shared<wire::ChangeT>();
  change->version = {promise_, 1};
  change->reset = true;
  change->roster = std::make_unique<wire::RosterT>();
  change->roster->version = change->version;
  change->roster->init_member = self_.value;
  change->roster->next_member = 2;
  change->roster->next_slot = 1;  // slot 0 is never issued: address 0 is nobody's
  change->roster->pool = wire::Uuid128(pool_.hi, pool_.lo);
  change->roster->entries.push_back(std::move(entry));
  std::vector<DurableOp> ops{SetIdentity{pool_, options_.node, self_}, SetPromise{promise_}};
  AfterDurable after;
  after.promise = promise_;
  after.position = change->version;
  after.done = CommandDone{no, VP_OK, {}, nullptr, self_, nullptr};
  registry_.append(change, ops);
  start_leading(change->version, now_);
  persist(std::move(ops), std::move(after));
}

void Core::command_promote(std::uint64_t no, const Promote& promote) {
  if (role_ == Role::leader && !promote.force) return done(no, VP_OK, {});
  const bool under_way = role_ == Role::candidate && candidate_.command;
  if (under_way && !promote.force) return done(no, VP_BUSY, "this node is being promoted already");
  Candidate candidate;
  candidate.command = no;
  candidate.force = promote.force;
  candidate.deadline = now_ + options_.command_deadline;
  for (const MemberNo member : promote.abandoned) {
    const bool known =
        find_member(registry_.tail_roster(), member) != nullptr || find_member(registry_.roster(), member) != nullptr;
    if (member == self_ || !known)
      return done(no, VP_INVALID,
                  fmt::format("member {} cannot be abandoned: it is not another member of this pool", member.value));
    candidate.abandoned.insert(member);
  }
  if (!promote.force) candidate.abandoned.clear();
  if (under_way) done(*candidate_.command, VP_CANCELLED, "promoted by force instead");
  const std::uint64_t highest = promise_.count;
  campaign(std::move(candidate), promote.force ? (highest / kForcedTermStep + 1) * kForcedTermStep : highest + 1);
}

bool Core::lease_holds(Instant now) const {
  if (inert_) return false;
  if (role_ == Role::leader) return open() && !leader_.recovering && has_authority(now);
  return (now < lease_until_ || (VP_BUG(6) && lease_until_.ns > 0)) &&
         is_alive(registry_.view(), {self_, options_.life});
}

void Core::check_lease() {
  const bool holds = lease_holds(now_);
  if (holds == lease_seen_) return;
  lease_seen_ = holds;
  if (holds) out_->push_back(LeaseGained{});
  if (!holds) out_->push_back(LeaseLost{});
}

std::optional<MemberNo> Core::followed(Instant now) const {
  if (role_ == Role::leader) return self_;
  if (role_ != Role::follower || !heard_coordinator_ || now - *heard_coordinator_ > options_.detection)
    return std::nullopt;
  return promise_.member;
}

std::string Core::describe() const {
  static constexpr const char* kRoles[] = {"follower", "candidate", "coordinator"};
  const auto at = [](const RecordVersion& v) {
    return fmt::format("{}.{}:{}", v.term.count, v.term.member.value, v.seq);
  };
  std::string text = fmt::format(
      "{} of term {}.{}, at {} (on disk {}, committed {}), {} asks", kRoles[static_cast<int>(role_)], promise_.count,
      promise_.member.value, at(registry_.position()), at(durable_position_), at(registry_.committed()), asks_.size());
  if (role_ != Role::leader) return text;
  text += fmt::format("{}{} waiters, {} parked", leader_.recovering ? ", recovering, " : ", ", leader_.waiters.size(),
                      leader_.parked.size());
  for (const auto& [member, peer] : leader_.peers)
    text += fmt::format("; {}/{}{} at {} committed {}{}", member.value, peer.life.value,
                        is_alive(registry_.tail_view(), {member, peer.life}) ? "" : " (dead)", at(peer.acked),
                        at(peer.committed), peer.sync ? " syncing" : "");
  return text;
}

void Core::make_visible(RecordVersion through) {
  std::vector<DurableOp> ops;
  Committed committed = registry_.commit(through, ops);
  if (ops.empty()) return;
  persist(std::move(ops), {}, false);
  if (committed.members) out_->push_back(RosterChanged{registry_.roster()});
  if (committed.view) out_->push_back(ViewChanged{registry_.view()});
  for (RecordRef& record : committed.applied) out_->push_back(RecordApplied{std::move(record)});
  for (const SegmentId& id : committed.erased) out_->push_back(RecordErased{id});
  const auto* line = find_member(registry_.view(), self_);
  if (line == nullptr || line->life < options_.life.value || is_alive(registry_.view(), {self_, options_.life})) return;
  VP_MARK(read_own_death_in_view);
  retire(false);
}

void Core::retire(bool forgotten) {
  if (candidate_.command)
    done(*std::exchange(candidate_.command, std::nullopt), VP_STALE,
         "this node had been declared dead: its daemon starts anew, then promote it again");
  if (role_ != Role::follower) become_follower(promise_);
  for (const auto& [request, ask] : asks_) {
    const bool left =
        forgotten && ask.proposal.kind == wire::ProposalKind::forget && ask.proposal.member == self_.value;
    done(ask.command, left ? VP_OK : VP_UNKNOWN_OUTCOME,
         left ? "" : "this node lost its membership while it waited for an answer");
  }
  asks_.clear();
  inert_ = true;
  check_lease();
  out_->push_back(MustRestart{forgotten});
}

}  // namespace vrampool::membership
