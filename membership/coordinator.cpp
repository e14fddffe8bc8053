// The coordinator: leases, and who is alive.
#include <algorithm>

#include "base/mark.h"
#include "membership/core.h"

namespace vrampool::membership {

inline constexpr Duration kAnnounceAfter = Duration::millis(1000);

bool Core::open() const {
  return role_ == Role::leader && durable_promise_ == promise_ && durable_position_ >= leader_.stamp;
}

// The latest time at which a quorum certainly still followed this term: our own clock at the sending of leases that
// came back as echoes.
std::optional<Instant> Core::authority_base(Instant now) const {
  std::vector<std::pair<Instant, MemberNo>> echoes;
  for (const auto& [member, peer] : leader_.peers)
    if (peer.echo) echoes.push_back({*peer.echo, member});
  std::sort(echoes.rbegin(), echoes.rend());
  MemberSet following{self_};
  if (is_quorum(registry_.tail_roster(), following)) return now;
  for (const auto& [echo, member] : echoes) {
    following.insert(member);
    if (is_quorum(registry_.tail_roster(), following)) return echo;
  }
  return std::nullopt;
}

bool Core::has_authority(Instant now) const {
  const auto base = authority_base(now);
  return base && now < *base + lease_of(options_.detection);
}

void Core::on_heartbeat(const wire::MembershipMessageT& m) {
  const wire::HeartbeatT& beat = *m.body.AsHeartbeat();
  if (!open()) return refuse(m.from.member, false);
  if (m.term > promise_) return contest(m.term);
  wire::LeaseT lease;
  lease.to = m.from;
  lease.sent_at_ns = beat.sent_at_ns;
  if (m.term < promise_) return tell(m.from.member, std::move(lease));  // announces the term
  const auto* line = find_member(registry_.tail_view(), m.from.member);
  if (line != nullptr && line->state != wire::MemberState::alive && line->life >= m.from.life.value && !VP_BUG(10)) {
    VP_MARK(heartbeat_of_the_dead);
    lease.verdict = wire::Verdict::dead;
    return tell(m.from.member, std::move(lease));
  }
  Peer* peer = hear(m);
  if (peer == nullptr) return;
  peer->heard = now_;
  peer->incarnation = Incarnation{beat.incarnation};
  if (beat.echo_ns > 0) peer->echo = std::max(peer->echo.value_or(Instant{}), Instant{beat.echo_ns});
  peer->committed = std::max(peer->committed, beat.committed);
  note_position(m.from.member, *peer, beat.position);
  const bool alive = is_alive(registry_.tail_view(), m.from) && is_alive(registry_.view(), m.from);
  lease.verdict = alive ? wire::Verdict::alive : wire::Verdict::syncing;
  lease.echo_ns = now_.ns;
  if (registry_.committed().term == promise_) lease.committed = registry_.committed();
  const auto* entry = find_member(registry_.tail_roster(), m.from.member);
  const bool stays = entry != nullptr && !entry->leaving;
  if (const auto base = authority_base(now_); base && alive && stays && !leader_.recovering)
    lease.lease_ns =
        std::max<std::int64_t>(0, (lease_of(options_.detection) - (VP_BUG(19) ? Duration{} : now_ - *base)).ns);
  tell(m.from.member, std::move(lease));
  answer_waiters();
}

// The peer in the life that speaks; nothing when that life is over.
Core::Peer* Core::hear(const wire::MembershipMessageT& m) {
  Peer& peer = leader_.peers[m.from.member];
  if (m.from.life < peer.life) {
    VP_MARK(message_of_older_life);
    return nullptr;
  }
  if (m.from.life > peer.life) {
    if (peer.life.value != 0) VP_MARK(peer_has_new_life);
    peer = Peer{};
    peer.life = m.from.life;
  }
  if (!peer.ever_heard) peer.heard = now_;
  peer.ever_heard = true;
  return &peer;
}

void Core::note_position(MemberNo member, Peer& peer, RecordVersion position) {
  if (position.term != promise_) return;
  peer.acked = std::max(peer.acked, position);
  peer.sent = std::max(peer.sent, peer.acked);
  if (peer.sync && peer.acked >= peer.sync->version) {
    peer.sync.reset();
    replicate(member, peer);
  }
}

// Somebody stands by a higher term that nobody leads: after a while we ask for a still higher one.
void Core::contest(Term term) {
  if (leader_.contested && *leader_.contested >= term) return;
  if (!leader_.contested) leader_.contested_at = now_;
  leader_.contested = term;
}

void Core::tick_leader() {
  if (!open()) return;
  absorb_pause();
  if (leader_.contested && now_ - leader_.contested_at > options_.detection) {
    VP_MARK(campaign_because_contested);
    Candidate candidate;
    candidate.automatic = true;
    candidate.previous = promise_;
    return campaign(std::move(candidate), leader_.contested->count + 1);
  }
  announce();
  update_view();
  finish_roster_change();
  replicate_all();
  try_commit();
}

// After our own pause nobody had a chance to be heard.
void Core::absorb_pause() {
  const Duration gap = now_ - leader_.last_tick;
  leader_.last_tick = now_;
  if (gap <= options_.detection / 4) return;
  VP_MARK(coordinator_paused);
  for (auto& [member, peer] : leader_.peers) peer.heard = std::min(now_, peer.heard + gap);
}

void Core::announce() {
  for (const MemberNo member : members_of(registry_.tail_roster())) {
    if (member == self_) continue;
    Peer& peer = leader_.peers[member];
    if (peer.ever_heard && now_ - peer.heard < kAnnounceAfter) continue;
    if (peer.announced_at.ns != 0 && now_ - peer.announced_at < kAnnounceAfter) continue;
    peer.announced_at = now_;
    tell(member, wire::LeaseT{});
  }
}

bool Core::caught_up(const Peer& peer) const {
  if (peer.acked.term != promise_) return false;
  return registry_.committed().term != promise_ || peer.acked >= registry_.committed();
}

std::unique_ptr<wire::ViewMemberT> Core::desired_line(MemberNo member) const {
  auto line = std::make_unique<wire::ViewMemberT>();
  const auto* before = find_member(registry_.tail_view(), member);
  if (before != nullptr) *line = *before;
  line->member = member.value;
  if (member == self_) {
    line->life = options_.life.value;
    line->incarnation = options_.incarnation.value;
    line->state = wire::MemberState::alive;
    return line;
  }
  const bool was_alive = before != nullptr && before->state == wire::MemberState::alive;
  line->state = wire::MemberState::dead;
  const auto at = leader_.peers.find(member);
  if (at == leader_.peers.end() || !at->second.ever_heard) return line;
  const Peer& peer = at->second;
  const Duration patience = VP_BUG(7) ? options_.detection / 4 : options_.detection;
  if (now_ - peer.heard > patience) return line;
  const bool same_life = was_alive && line->life == peer.life.value;
  const bool stays = same_life && registry_.tail_view().epoch.term == promise_;
  const bool comes = (same_life || line->life < peer.life.value || VP_BUG(10)) && caught_up(peer);
  if (!stays && !comes) return line;
  line->life = peer.life.value;
  line->incarnation = peer.incarnation.value;
  line->state = wire::MemberState::alive;
  return line;
}

wire::ViewT Core::desired_view() const {
  wire::ViewT view;
  view.coordinator = self_.value;
  for (const MemberNo member : members_of(registry_.tail_roster())) view.members.push_back(desired_line(member));
  const Epoch last = registry_.tail_view().epoch;
  view.epoch = {promise_, last.term == promise_ && !VP_BUG(17) ? last.n + 1 : 1};
  return view;
}

// The first view of a term waits until no lease of an earlier term can be left, and gives everybody who is there a
// chance to be in it.
bool Core::view_may_change() const {
  if (registry_.pending().size() >= kChangesInFlightMax) return false;
  if (registry_.tail_view().epoch.term == promise_) return true;
  if (now_ < leader_.fence_until) return false;
  if (now_ >= leader_.started + options_.detection * 3) return true;
  return std::all_of(leader_.peers.begin(), leader_.peers.end(), [this](const auto& entry) {
    const Peer& peer = entry.second;
    return !peer.ever_heard || now_ - peer.heard > options_.detection || caught_up(peer);
  });
}

void Core::update_view() {
  if (!view_may_change()) return;
  wire::ViewT view = desired_view();
  const wire::ViewT& last = registry_.tail_view();
  const auto same = [](const auto& a, const auto& b) { return *a == *b; };
  if (last.epoch.term == promise_ &&
      std::equal(view.members.begin(), view.members.end(), last.members.begin(), last.members.end(), same))
    return;
  if (!is_quorum(registry_.tail_roster(), alive_members(view))) {
    VP_MARK(no_quorum_no_view);
    return;
  }
  wire::ChangeT change;
  change.version = next_version();
  change.view = std::make_unique<wire::ViewT>(std::move(view));
  propose(std::move(change));
}

}  // namespace vrampool::membership
