// Making changes durable everywhere: appends to those who follow closely, syncs to those who do not, and the commit.
#include <algorithm>

#include "base/mark.h"
#include "membership/core.h"

namespace vrampool::membership {

void Core::propose(wire::ChangeT change) {
  auto shared = std::make_shared<const wire::ChangeT>(std::move(change));
  std::vector<DurableOp> ops;
  AfterDurable after;
  after.position = shared->version;
  registry_.append(shared, ops);
  leader_.log.push_back(std::move(shared));
  persist(std::move(ops), std::move(after));
}

void Core::replicate_all() {
  for (auto& [member, peer] : leader_.peers)
    if (peer.ever_heard && find_member(registry_.tail_roster(), member) != nullptr) replicate(member, peer);
}

void Core::replicate(MemberNo member, Peer& peer) {
  if (peer.sync) {
    if (now_ - peer.sync->progress_at > kSyncStalledAfter) {
      VP_MARK(sync_stalled);
      peer.sync.reset();
      return start_sync(member, peer);
    }
    if (now_ - peer.sync->sent_at >= kResendAfter) send_chunk(member, peer);
    return;
  }
  if (!in_log(peer.acked)) return start_sync(member, peer);
  const bool lost = now_ - peer.sent_at >= kResendAfter;
  if (peer.sent < durable_position_) return send_changes(member, peer, peer.sent);
  if (lost && peer.acked < durable_position_) return send_changes(member, peer, peer.acked);
  if (lost && peer.committed < registry_.committed() && registry_.committed().term == promise_)
    send_changes(member, peer, peer.sent);
}

bool Core::in_log(RecordVersion version) const { return version.term == promise_ && version >= leader_.log_base; }

void Core::send_changes(MemberNo member, Peer& peer, RecordVersion after) {
  wire::AppendT append;
  append.previous = after;
  if (registry_.committed().term == promise_) append.committed = registry_.committed();
  std::size_t bytes = 0;
  for (const ChangeRef& change : leader_.log) {
    if (change->version <= after) continue;
    if (change->version > durable_position_ || append.changes.size() >= kChangesPerAppend) break;
    for (const auto& record : change->records) bytes += approximate_bytes(*record);
    if (!append.changes.empty() && bytes > kChunkBytesMax) break;
    append.changes.push_back(std::make_unique<wire::ChangeT>(*change));
    peer.sent = std::max(peer.sent, change->version);
  }
  peer.sent_at = now_;
  tell(member, std::move(append));
}

void Core::on_appended(const wire::MembershipMessageT& m) {
  if (!open() || m.term != promise_) return;
  Peer* peer = hear(m);
  if (peer == nullptr) return;
  const wire::AppendedT& appended = *m.body.AsAppended();
  note_position(m.from.member, *peer, appended.position);
  if (appended.committed.term == promise_) peer->committed = std::max(peer->committed, appended.committed);
  update_view();
  try_commit();
  answer_waiters();
}

// The highest position that every live member of the latest view has made durable.
RecordVersion Core::acked_by_all() const {
  RecordVersion through = durable_position_;
  const MemberSet alive = alive_members(registry_.tail_view());
  if (registry_.tail_view().epoch.term != promise_ || !is_quorum(registry_.tail_roster(), alive)) return {};
  for (const MemberNo member : alive) {
    if (member == self_ || VP_BUG(9)) continue;
    const auto at = leader_.peers.find(member);
    if (at == leader_.peers.end()) return {};
    through = std::min(through, at->second.acked);
  }
  return through;
}

void Core::try_commit() {
  const RecordVersion through = acked_by_all();
  if (through.term != promise_ || through <= registry_.committed()) return;
  make_visible(through);
  if (inert_) return;
  if (leader_.recovering && registry_.view().epoch.term == promise_) {
    leader_.recovering = false;
    if (leader_.promote_command) done(*std::exchange(leader_.promote_command, std::nullopt), VP_OK, {});
  }
  for (auto& [member, peer] : leader_.peers)
    if (in_log(peer.acked) && !peer.sync && is_alive(registry_.tail_view(), {member, peer.life}))
      send_changes(member, peer, peer.sent);
  trim_log();
  answer_waiters();
  forget_gone_hosts();
  finish_roster_change();
  retry_parked();
}

void Core::trim_log() {
  while (leader_.log.size() > kLogKept && leader_.log.front()->version <= registry_.committed()) {
    leader_.log_base = leader_.log.front()->version;
    leader_.log.pop_front();
  }
}

// An answer leaves when every live member sees what it tells of.
void Core::answer_waiters() {
  RecordVersion seen = registry_.committed();
  for (const auto& [member, peer] : leader_.peers)
    if (is_alive(registry_.tail_view(), {member, peer.life})) seen = std::min(seen, peer.committed);
  while (!leader_.waiters.empty() && leader_.waiters.begin()->first <= seen) {
    Waiter waiter = std::move(leader_.waiters.begin()->second);
    leader_.waiters.erase(leader_.waiters.begin());
    reply(waiter.asker, waiter.request, std::move(waiter.answer));
  }
}

void Core::start_sync(MemberNo member, Peer& peer) {
  if (peer.digest) {
    const wire::DigestT digest = *std::exchange(peer.digest, std::nullopt);
    return begin_sync(member, peer, digest);
  }
  if (peer.digest_asked && now_ - peer.digest_asked_at < kAskAgainAfter) return;
  peer.digest_asked = ++leader_.sessions;
  peer.digest_asked_at = now_;
  wire::DigestAskT ask;
  ask.session = leader_.sessions;
  tell(member, std::move(ask));
}

void Core::on_digest_reply(const wire::MembershipMessageT& m) {
  if (!open() || m.term != promise_) return;
  const wire::DigestReplyT& reply = *m.body.AsDigestReply();
  Peer* peer = hear(m);
  if (peer == nullptr || !reply.digest || peer->sync || peer->digest_asked != reply.session) return;
  begin_sync(m.from.member, *peer, *reply.digest);
}

// Sends the state at our durable end; what comes after it follows as appends.
void Core::begin_sync(MemberNo member, Peer& peer, const wire::DigestT& digest) {
  peer.digest_asked.reset();
  if (durable_position_ != registry_.position() || digest.position >= durable_position_)
    return note_position(member, peer, digest.position);
  VP_MARK(sync_begins);
  SyncOut sync;
  sync.session = ++leader_.sessions;
  sync.base = digest.position;
  sync.version = registry_.position();
  std::map<SegmentId, RecordVersion> theirs;
  for (const auto& line : digest.lines) theirs[line->id] = line->version;
  for (const auto& [id, record] : registry_.tail_records()) {
    const auto at = theirs.find(id);
    if (at == theirs.end() || at->second != record->version) sync.put.push_back(record);
    if (at != theirs.end()) theirs.erase(at);
  }
  for (const auto& [id, version] : theirs) sync.erase.push_back(id);
  sync.roster = registry_.tail_roster();
  sync.view = registry_.tail_view();
  sync.progress_at = now_;
  peer.sync = std::move(sync);
  send_chunk(member, peer);
}

void Core::send_chunk(MemberNo member, Peer& peer) {
  SyncOut& out = *peer.sync;
  wire::SyncT sync;
  sync.session = out.session;
  sync.index = out.index;
  sync.base = out.base;
  sync.part = std::make_unique<wire::ChangeT>();
  sync.part->version = out.version;
  if (out.index == 0) {
    for (const SegmentId& id : out.erase) {
      sync.part->erased.push_back(std::make_unique<wire::SegmentKeyT>());
      sync.part->erased.back()->id = id;
    }
    sync.part->roster = std::make_unique<wire::RosterT>(out.roster);
    sync.part->view = std::make_unique<wire::ViewT>(out.view);
  }
  std::size_t bytes = 0;
  for (out.end = out.begin; out.end < out.put.size(); ++out.end) {
    bytes += approximate_bytes(*out.put[out.end]);
    if (out.end > out.begin && (bytes > kChunkBytesMax || out.end - out.begin >= options_.records_per_chunk)) break;
    sync.part->records.push_back(std::make_unique<wire::RecordT>(*out.put[out.end]));
  }
  sync.last = out.end == out.put.size();
  out.sent_at = now_;
  tell(member, std::move(sync));
}

void Core::on_sync_ack(const wire::MembershipMessageT& m) {
  if (!open() || m.term != promise_) return;
  const wire::SyncAckT& ack = *m.body.AsSyncAck();
  Peer* peer = hear(m);
  if (peer == nullptr || !peer->sync || peer->sync->session != ack.session || peer->sync->index != ack.index) return;
  SyncOut& out = *peer->sync;
  out.progress_at = now_;
  if (out.end == out.put.size()) {
    note_position(m.from.member, *peer, out.version);
    update_view();
    return try_commit();
  }
  VP_MARK(sync_in_chunks);
  out.begin = out.end;
  ++out.index;
  send_chunk(m.from.member, *peer);
}

}  // namespace vrampool::membership
