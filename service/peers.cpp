// Keeping links up and calls answered.
#include "service/peers.h"

#include <algorithm>

#include "base/log.h"
#include "membership/durable.h"
#include "platform/clock.h"
#include "wire/codec.h"

namespace vrampool::service {
namespace {

constexpr std::int64_t kRedialTickMs = 100;
// Complaints remembered so that each is logged once.
constexpr std::size_t kComplaintsMax = 256;

bool is_heartbeat(const wire::MembershipMessageT& m) {
  return m.body.type == wire::MembershipBody::Heartbeat || m.body.type == wire::MembershipBody::Lease;
}

bool means_refused(const std::string& why) {
  return why.find("refused by") != std::string::npos || why.find("wrong pool key") != std::string::npos;
}

}  // namespace

Peers::~Peers() { stop(); }

Status Peers::start(const PoolKey& key, const std::string& listen, std::uint16_t port) {
  VP_TRY(links, Links::create(loop_, *this, key));
  links_ = std::move(links);
  VP_CHECK(links_->listen(listen, port));
  redial();
  return {};
}

Status Peers::start_outward(const PoolKey& key) {
  VP_TRY(links, Links::create(loop_, *this, key));
  links_ = std::move(links);
  return {};
}

void Peers::stop() {
  loop_.forget(redial_timer_);
  if (links_) links_->close_all();
  open_.clear();
  while (!calls_.empty()) finish_call(calls_.begin()->first, error(VP_CANCELLED, "the daemon is stopping"));
  links_.reset();
}

// ---- greeting ----

wire::HelloT Peers::hello(wire::LinkRole role) {
  wire::HelloT h;
  h.version_min = h.version_max = 1;
  h.pool = wire::Uuid128(self_.pool.hi, self_.pool.lo);
  h.node = membership::to_wire(self_.node);
  h.sender = self_.sender;
  h.incarnation = self_.incarnation.value;
  h.role = role;
  h.name = self_.name;
  h.page_bytes = kPageBytes;
  h.data_port = self_.data_port;
  h.data_tls = self_.data_tls;
  return h;
}

std::string Peers::judge(const PeerFacts& peer, PoolId pool) {
  if (pool != self_.pool) return "belongs to pool " + to_text(pool) + ", this node to " + to_text(self_.pool);
  if (peer.node == self_.node)
    return "has this node's own id: a copied state directory? remove the copy and join again";
  if (peer.sender.member.value != 0 && peer.sender.member == self_.sender.member)
    return "claims this node's own member number";
  for (const LinkPtr& link : open_) {
    const PeerFacts& other = link->peer();
    if (other.sender.member == peer.sender.member && peer.sender.member.value != 0 && other.node != peer.node)
      return fmt::format("member {} is connected as another node: a copied state directory?", peer.sender.member.value);
    if (other.sender.member == peer.sender.member && peer.sender.member.value != 0 &&
        other.sender.life > peer.sender.life)
      return "a newer life of this node is connected";
  }
  return "";
}

void Peers::link_up(const LinkPtr& link) {
  const PeerFacts& peer = link->peer();
  open_.push_back(link);
  said_.erase(peer.host);
  if (peer.sender.member.value == 0) return;
  drop_life(peer.sender.member, peer.sender.life);
  if (peer.role == wire::LinkRole::control)
    log::info("link with {} (member {}, life {}) at {} is up", peer.name, peer.sender.member.value,
              peer.sender.life.value, peer.address);
  owner_.peer_changed(peer.sender.member);
}

void Peers::link_down(const LinkPtr& link, const std::string& why) {
  std::erase(open_, link);
  std::vector<std::uint64_t> broken;
  for (const auto& [no, call] : calls_)
    if (call.link == link.get()) broken.push_back(no);
  const PeerFacts& peer = link->peer();
  for (const std::uint64_t no : broken)
    finish_call(no, error(VP_UNREACHABLE, "{}: the connection broke: {}", peer.name, why));
  if (peer.sender.member.value == 0) return;
  if (peer.role == wire::LinkRole::control)
    log::info("link with {} (member {}) at {} is down: {}", peer.name, peer.sender.member.value, peer.address, why);
  owner_.peer_changed(peer.sender.member);
}

void Peers::stranger_refused(const std::string& address, const std::string& why) {
  const std::string host = address.substr(0, address.rfind(':'));
  if (said_.size() >= kComplaintsMax) said_.clear();
  if (std::exchange(said_[host], why) != why) log::warn("refused {}: {}", address, why);
}

void Peers::drop_life(MemberNo member, Life older_than) {
  const std::vector<LinkPtr> all = open_;
  for (const LinkPtr& link : all)
    if (link->peer().sender.member == member && link->peer().sender.life < older_than) link->close("that life is over");
}

// ---- dialling ----

void Peers::set_roster(const wire::RosterT& roster) {
  std::set<MemberNo> wanted;
  for (const auto& entry : roster.entries) {
    const MemberNo member{entry->member};
    if (entry->forgotten || member == self_.sender.member) continue;
    wanted.insert(member);
    targets_[member].addresses = entry->addresses;
  }
  std::erase_if(targets_, [&](const auto& t) { return !wanted.contains(t.first); });
}

void Peers::redial() {
  const Instant now = platform::now();
  for (auto& [member, target] : targets_)
    for (const wire::LinkRole role : {wire::LinkRole::control, wire::LinkRole::heartbeat}) {
      const Target::Dial& d = target.dials[role];
      if (!d.busy && now >= d.next && !target.addresses.empty() && !link_to(member, role)) dial(member, target, role);
    }
  redial_timer_ = loop_.after(Duration::millis(kRedialTickMs), [this] { redial(); });
}

void Peers::dial(MemberNo member, Target& target, wire::LinkRole role) {
  Target::Dial& d = target.dials[role];
  d.busy = true;
  const std::string address = target.addresses[d.address++ % target.addresses.size()];
  links_->dial(address, role, [this, member, role](Result<LinkPtr> result) {
    const auto at = targets_.find(member);
    if (at == targets_.end()) return;
    Target::Dial& done = at->second.dials[role];
    done.busy = false;
    if (!result) return dial_failed(member, role, result.error().message);
    if ((*result)->peer().sender.member != member) return (*result)->close("another node answers at that address");
    done.pause_ms = kRedialFirstMs;
    done.trouble.clear();
  });
}

void Peers::dial_failed(MemberNo member, wire::LinkRole role, const std::string& why) {
  Target::Dial& d = targets_[member].dials[role];
  const bool refused = means_refused(why);
  d.next = platform::now() + Duration::millis(refused ? kRedialRefusedMs : d.pause_ms);
  d.pause_ms = std::min(d.pause_ms * 2, kRedialMaxMs);
  if (std::exchange(d.trouble, why) == why || role != wire::LinkRole::control) return;
  if (refused)
    log::error("member {}: {}", member.value, why);
  else
    log::info("member {} cannot be reached: {}", member.value, why);
}

LinkPtr Peers::link_to(MemberNo member, wire::LinkRole role) const {
  for (auto at = open_.rbegin(); at != open_.rend(); ++at)
    if ((*at)->peer().sender.member == member && (*at)->peer().role == role) return *at;
  return nullptr;
}

bool Peers::connected(MemberNo member) const { return link_to(member, wire::LinkRole::control) != nullptr; }

const PeerFacts* Peers::facts(MemberNo member) const {
  const LinkPtr link = link_to(member, wire::LinkRole::control);
  return link ? &link->peer() : nullptr;
}

std::string Peers::trouble(MemberNo member) const {
  const auto at = targets_.find(member);
  if (at == targets_.end()) return "";
  const auto d = at->second.dials.find(wire::LinkRole::control);
  return d == at->second.dials.end() ? "" : d->second.trouble;
}

// ---- messages ----

wire::EnvelopeT Peers::envelope(MemberNo to, Body body) const {
  wire::EnvelopeT e;
  e.from = self_.sender;
  e.to = to.value;
  e.epoch = epoch_;
  e.body = std::move(body);
  return e;
}

void Peers::send_membership(MemberNo to, wire::MembershipMessageT message) {
  const LinkPtr link = link_to(to, is_heartbeat(message) ? wire::LinkRole::heartbeat : wire::LinkRole::control);
  if (link) link->send(wire::encode<wire::Envelope>(envelope(to, body_of(std::move(message)))));
}

Reply<Result<Body>> Peers::call(MemberNo to, Body request, Duration deadline) {
  const LinkPtr link = link_to(to, wire::LinkRole::control);
  if (link) return call_on(link, to, std::move(request), deadline);
  auto reply = loop_.reply<Result<Body>>();
  const std::string why = trouble(to);
  reply.set(error(VP_UNREACHABLE, "member {} is not connected{}{}", to.value, why.empty() ? "" : ": ", why));
  return reply;
}

Reply<Result<Body>> Peers::call_on(const LinkPtr& link, MemberNo to, Body request, Duration deadline) {
  auto reply = loop_.reply<Result<Body>>();
  if (calls_.size() >= kCallsMax) {
    reply.set(error(VP_BUSY, "too many calls are waiting for other members"));
    return reply;
  }
  const std::uint64_t no = next_call_++;
  const auto timer = loop_.after(deadline, [this, no, to, deadline] {
    finish_call(no, error(VP_TIMEOUT, "member {} did not answer within {} s", to.value, deadline.as_millis() / 1000));
  });
  calls_.emplace(no, Call{link.get(), to, timer, reply});
  wire::EnvelopeT e = envelope(to, std::move(request));
  e.call = no;
  link->send(wire::encode<wire::Envelope>(e));
  return reply;
}

Task<Result<Body>> Peers::call_address(std::string address, Body request, Duration deadline) {
  Reply<Result<LinkPtr>> up = loop_.reply<Result<LinkPtr>>();
  links_->dial(address, wire::LinkRole::control, [up](Result<LinkPtr> r) { up.set(std::move(r)); });
  Result<LinkPtr> link = co_await loop_.within(deadline, up, address);
  if (!link) co_return link.take_error();
  Reply<Result<Body>> reply = call_on(*link, (*link)->peer().sender.member, std::move(request), deadline);
  Result<Body> result = co_await reply;
  (*link)->close("done");
  co_return result;
}

void Peers::finish_call(std::uint64_t no, Result<Body> result) {
  const auto at = calls_.find(no);
  if (at == calls_.end()) return;
  const Call call = at->second;
  calls_.erase(at);
  loop_.forget(call.timer);
  call.reply.set(std::move(result));
}

void Peers::link_message(const LinkPtr& link, std::span<const std::byte> message) {
  auto decoded = wire::decode<wire::Envelope>(message, link->peer().address.c_str());
  if (!decoded) return link->close(decoded.error().message);
  wire::EnvelopeT& e = *decoded;
  if (e.from != link->peer().sender && e.ttl == 4) return link->close("it speaks in another member's name");
  if (e.to != self_.sender.member.value && e.to != 0) return;  // nothing is relayed: every member has a link of its own
  if (auto* m = e.body.AsMembershipMessage()) return owner_.membership_message(std::move(*m));
  if (e.reply) {
    const auto asked = calls_.find(e.call);
    if (asked != calls_.end() && asked->second.link == link.get()) finish_call(e.call, std::move(e.body));
    return;
  }
  if (e.call != 0) on_request(link, std::move(e));
}

void Peers::on_request(const LinkPtr& link, wire::EnvelopeT e) {
  if (requests_ >= kRequestsMax) return;  // the asker's deadline answers it
  ++requests_;
  loop_.spawn(answer_on(link, link->peer(), std::move(e)));
}

Task<> Peers::answer_on(std::weak_ptr<Link> link, PeerFacts from, wire::EnvelopeT request) {
  const std::uint64_t call = request.call;
  const MemberNo to = from.sender.member;
  Body answer = co_await owner_.answer(std::move(from), std::move(request.body));
  --requests_;
  const LinkPtr alive = link.lock();
  if (!alive || answer.type == wire::Body::NONE) co_return;
  wire::EnvelopeT e = envelope(to, std::move(answer));
  e.call = call;
  e.reply = true;
  alive->send(wire::encode<wire::Envelope>(e));
}

}  // namespace vrampool::service
