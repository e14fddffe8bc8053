// The hub: starts the parts of a life in order and carries what one says to the others.
#include "service/node.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>

#include "base/log.h"
#include "membership/durable.h"
#include "platform/clock.h"

namespace vrampool::service {
namespace {

constexpr std::int64_t kNodeTickMs = 1000;
constexpr std::int64_t kTicketPauseMs = 50;
constexpr std::size_t kAddressesMax = 8;

}  // namespace

Result<std::unique_ptr<Node>> Node::start(NodeParts parts, membership::DurableState state) {
  std::unique_ptr<Node> node(new Node(std::move(parts)));
  VP_CHECK(node->open(std::move(state)));
  return node;
}

Status Node::open(membership::DurableState state) {
  self_ = Sender{state.self, parts_.birth.life};
  membership::Options options;
  options.node = parts_.birth.node;
  options.life = parts_.birth.life;
  options.incarnation = parts_.birth.incarnation;
  options.detection = Duration::millis(parts_.config.detection_ms);
  members_ = std::make_unique<Members>(parts_.loop, parts_.store, peers_, *this, options, std::move(state));
  VP_TRY(data, parts_.start_data_plane(data_options()));
  data_ = std::move(data);
  peers_.set_self(SelfFacts{machine().pool(), parts_.birth.node, self_, parts_.birth.incarnation,
                            parts_.config.node_name, data_->data_port(), parts_.config.data_tls});
  VP_CHECK(peers_.start(parts_.key, parts_.config.listen, parts_.config.control_port));
  peers_.set_roster(machine().roster());
  pieces_ = std::make_unique<Pieces>(parts_.loop, *members_, *data_, self_, parts_.birth.incarnation,
                                     parts_.config.capacity_bytes);
  segments_ = std::make_unique<Segments>(parts_.loop, *members_, *data_, *this);
  jobs_ = std::make_unique<Jobs>(parts_.loop, *segments_, *data_);
  for (const auto& record : machine().records())
    if (record->state == wire::SegmentState::sealed) data_->open_record(record);
  members_->start_ticking();
  drop_abandoned();
  log::info("member {} of pool {}, life {}, faults by {}, control port {}, data port {}", self_.member.value,
            to_text(machine().pool()), self_.life.value, data_->fault_source(), peers_.port(), data_->data_port());
  return {};
}

Node::~Node() {
  parts_.loop.forget(timer_);
  if (jobs_) jobs_->cancel_all();
  peers_.stop();
  jobs_.reset();
  segments_.reset();
  pieces_.reset();
  data_.reset();
  members_.reset();
}

DataPlaneOptions Node::data_options() {
  const Config& c = parts_.config;
  DataPlaneOptions o;
  o.self = self_;
  o.incarnation = parts_.birth.incarnation;
  o.memory_dir = c.memory_dir;
  o.ledger_dir = c.state_dir;
  o.capacity_bytes = c.capacity_bytes;
  o.cache_bytes = c.cache_bytes;
  o.movers = c.movers;
  o.listen_address = c.listen;
  o.data_port = c.data_port;
  o.data_tls = c.data_tls;
  o.pool_key.assign(parts_.key.bytes.begin(), parts_.key.bytes.end());
  o.pool_key_id = to_text(parts_.key.id);
  o.fault_deadline = Duration::millis(c.fault_deadline_ms);
  o.force_posix_faults = c.fault_source == "posix";
  o.post = parts_.loop.poster();
  o.ask_ticket = [this](MemberNo to, DoneWith<wire::Ticket> done) {
    parts_.loop.spawn(fetch_ticket(to, std::move(done)));
  };
  o.peer_failed = [this](MemberNo peer, std::string why) {
    log::warn("data link with {}: {}", members_->name_of(peer), why);
  };
  o.loss = [this](ClientNo client, wire::LossEventT event) { parts_.owner.loss(client, std::move(event)); };
  return o;
}

// ---- between members ----

Reply<Result<Body>> Node::ask(MemberNo member, Body request) {
  if (member != self_.member) return peers_.call(member, std::move(request));
  auto reply = parts_.loop.reply<Result<Body>>();
  parts_.loop.spawn(answer_self(std::move(request), reply));
  return reply;
}

Task<> Node::answer_self(Body request, Reply<Result<Body>> reply) {
  PeerFacts from;
  from.sender = self_;
  Body body = co_await answer(std::move(from), std::move(request));
  reply.set(Result<Body>(std::move(body)));
}

void Node::membership_message(wire::MembershipMessageT message) { members_->receive(std::move(message)); }

Task<Body> Node::answer(PeerFacts from, Body request) {
  if (auto* ask = request.AsJoinRequest()) co_return co_await admit(std::move(*ask));
  if (from.sender != self_ && !machine().is_current(from.sender)) {
    wire::PieceReplyT no;
    no.status = VP_STALE;
    no.message = fmt::format("member {} in life {} is not in this node's view {}", from.sender.member.value,
                             from.sender.life.value, to_text(machine().epoch()));
    co_return body_of(std::move(no));
  }
  if (request.AsSpaceRequest()) co_return pieces_->space();
  if (request.AsTicketRequest()) co_return ticket_for(from.sender);
  if (auto* ask = request.AsPieceCreate()) co_return co_await pieces_->create(from.sender, std::move(*ask));
  if (auto* ask = request.AsPieceFreeze()) co_return co_await pieces_->freeze(std::move(*ask));
  if (auto* ask = request.AsPieceSeal()) co_return co_await pieces_->seal(std::move(*ask));
  if (auto* ask = request.AsPieceFree()) co_return co_await pieces_->free(std::move(*ask));
  if (auto* ask = request.AsPromoteRequest()) {
    const Status promoted = co_await promote(ask->force);
    wire::PieceReplyT outcome;
    outcome.status = static_cast<std::uint16_t>(promoted ? VP_OK : promoted.error().code);
    if (!promoted) outcome.message = promoted.error().message;
    co_return body_of(std::move(outcome));
  }
  if (request.AsStatusRequest()) {
    wire::StatusReplyT status;
    status.json = parts_.owner.status_json();
    co_return body_of(std::move(status));
  }
  co_return Body{};  // of a newer version: the asker's deadline answers
}

Task<Body> Node::admit(wire::JoinRequestT ask) {
  Members::What what = membership::Admit{membership::to_node_id(ask.node), ask.name, ask.addresses, ask.machine};
  Result<membership::CommandDone> done = co_await members_->run(std::move(what));
  wire::JoinReplyT reply;
  if (!done) {
    reply.status = static_cast<std::uint16_t>(done.error().code);
    reply.message = done.error().message;
    co_return body_of(std::move(reply));
  }
  reply.member = done->member.value;
  if (done->roster) reply.roster = std::make_unique<wire::RosterT>(*done->roster);
  log::info("{} joined as member {}", ask.name, reply.member);
  co_return body_of(std::move(reply));
}

Body Node::ticket_for(Sender from) {
  const wire::Ticket ticket = data_->issue_ticket(from);
  wire::TicketReplyT reply;
  for (const std::byte b : ticket) reply.ticket.push_back(std::to_integer<std::uint8_t>(b));
  reply.port = data_->data_port();
  reply.tls = parts_.config.data_tls;
  return body_of(std::move(reply));
}

// A member whose new life the other side has not seen yet is refused for a moment: asked again until the deadline, and
// then the failure is one that may be tried again.
Task<> Node::fetch_ticket(MemberNo to, DoneWith<wire::Ticket> done) {
  const Instant until = platform::now() + Duration::millis(kConnectDeadlineMs);
  while (true) {
    Reply<Result<Body>> reply = ask(to, body_of(wire::TicketRequestT{}));
    Result<Body> answer = co_await reply;
    if (!answer) co_return done(answer.take_error());
    const auto* ticket = answer->AsTicketReply();
    wire::Ticket out{};
    if (ticket && ticket->ticket.size() == out.size()) {
      std::transform(ticket->ticket.begin(), ticket->ticket.end(), out.begin(),
                     [](std::uint8_t b) { return std::byte{b}; });
      co_return done(out);
    }
    if (platform::now() >= until)
      co_return done(error(VP_UNREACHABLE, "{} does not take data from this node yet", members_->name_of(to)));
    co_await parts_.loop.sleep(Duration::millis(kTicketPauseMs));
  }
}

void Node::peer_changed(MemberNo) {
  if (data_) tell_members();
}

// The data plane connects to members that are alive and whose data address a link has told.
void Node::tell_members() {
  const wire::ViewT& view = machine().view();
  std::vector<Peer> peers;
  for (const auto& m : view.members) {
    const MemberNo member{m->member};
    const PeerFacts* facts = peers_.facts(member);
    if (member == self_.member || m->state != wire::MemberState::alive || !facts) continue;
    peers.push_back(
        Peer{member, Life{m->life}, facts->host, facts->data_port, facts->data_tls || parts_.config.data_tls});
  }
  data_->set_members(view, std::move(peers));
}

// ---- what membership says ----

void Node::view_changed(const wire::ViewT& view) {
  peers_.set_epoch(view.epoch);
  std::string who;
  for (const auto& m : view.members) {
    if (m->state == wire::MemberState::alive)
      who += (who.empty() ? "" : ", ") + members_->name_of(MemberNo{m->member});
    else
      peers_.drop_life(MemberNo{m->member}, Life{m->life + 1});
  }
  log::info("view {}: {} alive", to_text(view.epoch), who);
  if (data_) tell_members();
}

void Node::record_applied(const membership::RecordRef& record) {
  if (!data_ || !pieces_) return;  // while starting: open() looks at all records
  if (record->state == wire::SegmentState::sealed) data_->open_record(record);
  if (record->state == wire::SegmentState::deleted) data_->close_record(record->id);
  pieces_->record_applied(record);
}

void Node::roster_changed(const wire::RosterT& roster) { peers_.set_roster(roster); }

void Node::lease_changed(bool holds) {
  if (holds)
    log::info("the coordinator answers: changes are possible");
  else
    log::warn("no coordinator: nothing can be created or removed until it is back; what is sealed stays readable");
}

void Node::must_restart(bool forgotten) {
  if (std::exchange(ended_, true)) return;
  log::warn("{}", forgotten ? "this node is no longer on the roster"
                            : "this life of the node was declared dead: starting a new one");
  parts_.owner.life_ended(forgotten);
}

// ---- operators ----

Task<Status> Node::forget(MemberNo member) {
  Members::What what = membership::Forget{member};
  const Result<membership::CommandDone> done = co_await members_->run(std::move(what));
  if (!done) co_return done.error();
  co_return Status{};
}

std::vector<MemberNo> Node::silent_members() const {
  std::vector<MemberNo> out;
  for (const auto& entry : machine().roster().entries) {
    const MemberNo member{entry->member};
    if (!entry->forgotten && member != self_.member && !peers_.connected(member)) out.push_back(member);
  }
  return out;
}

Task<Status> Node::promote(bool force) {
  Members::What what = membership::Promote{force, force ? silent_members() : std::vector<MemberNo>{}};
  const Result<membership::CommandDone> done = co_await members_->run(std::move(what));
  if (!done) co_return done.error();
  co_return Status{};
}

void Node::abandon(SegmentId id) {
  if (dropping_.insert(id).second) parts_.loop.spawn(drop_one(id));
}

Task<> Node::drop_one(SegmentId id) {
  static_cast<void>(co_await segments_->abort(id));
  dropping_.erase(id);
}

// The coordinator drops creations whose creator's life is over.
void Node::drop_abandoned() {
  timer_ = parts_.loop.after(Duration::millis(kNodeTickMs), [this] { drop_abandoned(); });
  for (const SegmentId id : jobs_->take_expired(platform::now())) abandon(id);
  if (!machine().is_coordinator() || machine().is_recovering()) return;
  for (const SegmentId id : machine().abandoned_creations()) abandon(id);
}

// ---- addresses ----

std::vector<std::string> Node::addresses() const { return advertised_addresses(parts_.config, peers_.port()); }

std::vector<std::string> advertised_addresses(const Config& config, std::uint16_t port) {
  const auto with_port = [&](const std::string& host) { return to_text(HostPort{host, port}); };
  if (!config.advertise.empty())
    return {parse_host_port(config.advertise) ? config.advertise : with_port(config.advertise)};
  if (config.listen != "0.0.0.0" && config.listen != "::") return {with_port(config.listen)};
  std::vector<std::string> out;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return {with_port("127.0.0.1")};
  for (const ifaddrs* a = all; a && out.size() < kAddressesMax; a = a->ifa_next) {
    if (!a->ifa_addr || a->ifa_addr->sa_family != AF_INET || (a->ifa_flags & IFF_LOOPBACK) || !(a->ifa_flags & IFF_UP))
      continue;
    char text[INET_ADDRSTRLEN] = {};
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(a->ifa_addr)->sin_addr, text, sizeof text);
    out.push_back(with_port(text));
  }
  ::freeifaddrs(all);
  if (out.empty()) out.push_back(with_port("127.0.0.1"));
  return out;
}

}  // namespace vrampool::service
