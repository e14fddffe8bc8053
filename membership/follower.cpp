// The member: it says that it lives, holds a lease, and follows the coordinator's changes.
#include <algorithm>

#include "base/mark.h"
#include "membership/core.h"

namespace vrampool::membership {

void Core::tick_follower() {
  if (probe_until_) {
    const MemberSet members = members_of(registry_.tail_roster());
    if (now_ >= *probe_until_ || probed_.size() + 1 >= members.size()) {
      Candidate candidate;
      candidate.automatic = true;
      candidate.previous = promise_;
      probe_until_.reset();
      return campaign(std::move(candidate), promise_.count + 1);
    }
  } else if (coordinator_alive()) {
    if (now_ < heartbeat_at_) return;
    heartbeat_at_ = now_ + Duration::millis(kHeartbeatEveryMs);
    return tell(promise_.member, heartbeat());
  }
  probe();
}

// Nobody leads as far as we know: whoever does will answer.
void Core::probe() {
  if (now_ < probe_at_) return;
  probe_at_ = now_ + (probe_until_ ? kResendAfter : kProbeEvery);
  for (const MemberNo member : members_of(registry_.tail_roster()))
    if (member != self_) tell(member, heartbeat());
}

wire::HeartbeatT Core::heartbeat() const {
  wire::HeartbeatT beat;
  beat.incarnation = options_.incarnation.value;
  beat.sent_at_ns = now_.ns;
  beat.echo_ns = echo_ns_;
  beat.position = durable_position_;
  beat.committed = registry_.committed();
  return beat;
}

void Core::on_lease(const wire::LeaseT& lease) {
  heard_coordinator_ = last_heard_ = now_;
  if (lease.verdict == wire::Verdict::announce) return;
  if (lease.to != Sender{self_, options_.life}) return;
  if (lease.verdict == wire::Verdict::dead) {
    VP_MARK(told_dead);
    return retire(false);
  }
  echo_ns_ = std::max(echo_ns_, lease.echo_ns);
  const Instant from = VP_BUG(5) ? now_ : Instant{lease.sent_at_ns};
  if (lease.lease_ns > 0) lease_until_ = std::max(lease_until_, from + Duration{lease.lease_ns});
  if (lease.committed.term == promise_ && registry_.position().term == promise_) make_visible(lease.committed);
}

void Core::on_append(MemberNo from, const wire::AppendT& append) {
  heard_coordinator_ = last_heard_ = now_;
  if (registry_.position().term != promise_) return;  // a sync comes first
  AfterDurable after;
  std::vector<DurableOp> ops;
  if (append.previous <= registry_.position()) {
    for (const auto& change : append.changes) {
      if (change->version <= registry_.position()) continue;
      after.position = change->version;
      registry_.append(std::make_shared<const wire::ChangeT>(*change), ops);
    }
  } else {
    VP_MARK(append_with_gap);
  }
  if (append.committed.term == promise_) make_visible(VP_BUG(20) ? registry_.position() : append.committed);
  if (inert_) return;
  if (ops.empty() || VP_BUG(12)) {
    report_position(from, VP_BUG(12) ? registry_.position() : durable_position_);
    if (ops.empty()) return;
  } else {
    wire::AppendedT appended;
    appended.position = after.position;
    appended.committed = registry_.committed();
    after.sends.push_back({from, message(from, std::move(appended))});
  }
  persist(std::move(ops), std::move(after));
}

void Core::report_position(MemberNo to, RecordVersion position) {
  wire::AppendedT appended;
  appended.position = position;
  appended.committed = registry_.committed();
  tell(to, std::move(appended));
}

void Core::on_digest_ask(MemberNo from, const wire::DigestAskT& ask) {
  heard_coordinator_ = last_heard_ = now_;
  wire::DigestReplyT reply;
  reply.session = ask.session;
  reply.digest = std::make_unique<wire::DigestT>(registry_.digest());
  // The digest covers changes whose order to the disk is under way: it leaves after them.
  AfterDurable after;
  after.sends.push_back({from, message(from, std::move(reply))});
  persist({}, std::move(after), false);
}

void Core::on_sync(MemberNo from, const wire::SyncT& sync) {
  heard_coordinator_ = last_heard_ = now_;
  if (!sync.part) return;
  if (!staging_ || staging_->session != sync.session) {
    if (sync.index != 0 || (staging_ && sync.session < staging_->session)) return;
    staging_ = Staging{};
    staging_->session = sync.session;
  }
  wire::SyncAckT ack;
  ack.session = sync.session;
  ack.index = sync.index;
  if (sync.index < staging_->next) {
    VP_MARK(sync_chunk_repeated);
    if (!sync.last || (staging_->ended && durable_position_ >= sync.part->version)) tell(from, std::move(ack));
    return;
  }
  if (sync.index != staging_->next || staging_->ended) return;
  ++staging_->next;
  for (const auto& record : sync.part->records)
    staging_->change.records.push_back(std::make_unique<wire::RecordT>(*record));
  for (const auto& key : sync.part->erased)
    staging_->change.erased.push_back(std::make_unique<wire::SegmentKeyT>(*key));
  if (sync.part->roster) staging_->change.roster = std::make_unique<wire::RosterT>(*sync.part->roster);
  if (sync.part->view) staging_->change.view = std::make_unique<wire::ViewT>(*sync.part->view);
  if (!sync.last) return tell(from, std::move(ack));
  finish_sync(from, sync);
}

// The gathered difference becomes one change behind what we have, so that it is applied whole or not at all.
void Core::finish_sync(MemberNo from, const wire::SyncT& sync) {
  staging_->ended = true;
  if (sync.base != registry_.position() || sync.part->version <= registry_.position()) {
    VP_MARK(sync_for_another_position);
    return;
  }
  wire::ChangeT change = std::move(staging_->change);
  change.version = sync.part->version;
  change.reset = true;
  if (VP_BUG(1)) {  // keeps what it holds
    std::erase_if(change.erased, [&](const auto& key) { return registry_.tail_find(key->id) != nullptr; });
    std::erase_if(change.records, [&](const auto& record) {
      return record->state == wire::SegmentState::deleted && registry_.tail_find(record->id) != nullptr;
    });
  }
  AfterDurable after;
  after.position = change.version;
  wire::SyncAckT ack;
  ack.session = sync.session;
  ack.index = sync.index;
  after.sends.push_back({from, message(from, std::move(ack))});
  std::vector<DurableOp> ops;
  registry_.append(std::make_shared<const wire::ChangeT>(std::move(change)), ops);
  persist(std::move(ops), std::move(after));
}

void Core::on_fetch(MemberNo from, const wire::FetchT& fetch) {
  wire::FetchedT fetched;
  std::size_t bytes = 0;
  for (const auto& key : fetch.ids) {
    const RecordRef record = registry_.tail_find(key->id);
    if (!record) continue;
    bytes += approximate_bytes(*record);
    if (!fetched.records.empty() && bytes > kChunkBytesMax) break;
    fetched.records.push_back(std::make_unique<wire::RecordT>(*record));
  }
  tell(from, std::move(fetched));
}

void Core::on_refused(MemberNo from, const wire::RefusedT& refused) {
  probed_.insert(from);
  if (refused.forgotten) {
    // Two sides that abandoned each other: the later one stays. A mere promise does not make a side.
    if (refused.term < registry_.position().term) return;
    VP_MARK(told_forgotten);
    return retire(true);
  }
  if (refused.term <= promise_) return;
  const bool wanted_by_person = role_ == Role::candidate && !candidate_.automatic;
  if (refused.established && !wanted_by_person) {
    VP_MARK(told_of_successor);
    return adopt_term(refused.term);
  }
  if (role_ == Role::candidate) candidate_.highest_seen = std::max(candidate_.highest_seen, refused.term);
  if (role_ == Role::leader) contest(refused.term);
}

}  // namespace vrampool::membership
