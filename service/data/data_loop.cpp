#include "service/data/data_loop.h"

#include <algorithm>
#include <limits>

#include "base/log.h"
#include "platform/clock.h"
#include "service/data/client_link.h"
#include "service/data/client_ops.h"
#include "service/data/server_link.h"
#include "transport/tcp/socket.h"

namespace vrampool::service::data {
namespace {

// 64 MiB and a little per loop, of which only what was ever used at once is allocated.
constexpr std::size_t kBuffersPerLoop = 96;
constexpr Duration kTickMost = Duration::seconds(30);

}  // namespace

// Takes connections on the listener and gives each a ServerLink.
class DataLoop::Acceptor final : public Watched {
 public:
  Acceptor(DataLoop& loop, transport::tcp::Listener& listener) : loop_(loop), listener_(listener) {
    if (auto token = loop.events().watch(listener.fd(), platform::PollFor::read, *this))
      token_ = *token;
    else
      log::error("the data listener cannot be watched: {}", token.error().message);
  }
  ~Acceptor() override { loop_.events().unwatch(token_, listener_.fd()); }

 private:
  void on_event(const platform::PollEvent&) override {
    for (;;) {
      auto next = listener_.accept();
      if (!next) return log::warn("a data connection could not be taken: {}", next.error().message);
      if (!*next) return;
      ServerLink::take(loop_, std::move(**next));
    }
  }
  DataLoop& loop_;
  transport::tcp::Listener& listener_;
  EventLoop::Token token_ = 0;
};

Result<std::unique_ptr<DataLoop>> DataLoop::create(Node& node, unsigned index) {
  const std::string name = index == 0 ? "vp-engine" : fmt::format("vp-mover-{}", index);
  VP_TRY(events, EventLoop::create(name, index == 0 ? node.options.spin : Duration{}));
  return std::unique_ptr<DataLoop>(new DataLoop(node, index, std::move(events)));
}

DataLoop::DataLoop(Node& node, unsigned index, std::unique_ptr<EventLoop> events)
    : node_(node),
      index_(index),
      events_(std::move(events)),
      buffers_(kBuffersPerLoop),
      ops_(std::make_unique<ClientOps>(*this)) {}

DataLoop::~DataLoop() {
  stop();
  acceptor_.reset();
  for (auto& [member, link] : peer_links_) link->retire(error(VP_CANCELLED, "the data plane is ending"));
  peer_links_.clear();
  served_.clear();
  ops_.reset();
}

void DataLoop::start() {
  events_->start([this](Instant now) { return tick(now); });
}

Instant DataLoop::tick(Instant now) {
  Instant next = now + kTickMost;
  next = std::min(next, end_the_unadmitted(now));
  bury();
  next = std::min(next, ops_->tick(now));
  for (auto& [member, link] : peer_links_) next = std::min(next, link->tick(now));
  if (engine_tick) next = std::min(next, engine_tick(now));
  return next;
}

std::size_t DataLoop::unadmitted() const {
  return static_cast<std::size_t>(
      std::count_if(served_.begin(), served_.end(), [](const auto& link) { return !link->open(); }));
}

Instant DataLoop::end_the_unadmitted(Instant now) {
  Instant next = now + kTickMost;
  for (auto& link : served_) {
    auto* server = dynamic_cast<ServerLink*>(link.get());
    const auto deadline = server == nullptr ? std::nullopt : server->deadline();
    if (!deadline) continue;
    if (*deadline <= now)
      server->give_up();
    else
      next = std::min(next, *deadline);
  }
  return next;
}

void DataLoop::bury() {
  std::erase_if(served_, [](const auto& link) { return link->finished(); });
}

// ---- who lives ----

void DataLoop::set_members(const wire::ViewT& view, const std::vector<Peer>& peers) {
  if (view.epoch >= epoch_) epoch_ = view.epoch;
  lives_.clear();
  incarnations_.clear();
  for (const auto& m : view.members) {
    if (!m || m->state != wire::MemberState::alive) continue;
    lives_[MemberNo{m->member}] = Life{m->life};
    incarnations_[MemberNo{m->member}] = Incarnation{m->incarnation};
  }
  std::map<MemberNo, Peer> known;
  for (const Peer& p : peers)
    if (p.life.value != 0 && alive({p.member, p.life}) && p.member != node_.self().member) known[p.member] = p;
  peers_ = std::move(known);
  for (auto it = peer_links_.begin(); it != peer_links_.end();) {
    const auto now = peers_.find(it->first);
    const Peer& was = it->second->to();
    if (now != peers_.end() && now->second.life == was.life && now->second.host == was.host &&
        now->second.data_port == was.data_port) {
      ++it;
      continue;
    }
    it->second->retire(error(VP_UNREACHABLE, "member {} left in life {}", was.member.value, was.life.value));
    it = peer_links_.erase(it);
  }
  for (auto& link : served_)
    if (auto* server = dynamic_cast<ServerLink*>(link.get())) server->judge_again();
  refresh_placements();
}

bool DataLoop::alive(Sender who) const {
  const auto it = lives_.find(who.member);
  return it != lives_.end() && it->second == who.life;
}

PeerLink* DataLoop::peer(MemberNo member) {
  if (const auto it = peer_links_.find(member); it != peer_links_.end()) return it->second.get();
  const auto it = peers_.find(member);
  if (it == peers_.end()) return nullptr;
  auto& link = peer_links_[member];
  link = std::make_unique<PeerLink>(*this, it->second, index_ != 0);
  return link.get();
}

// ---- what is where ----

DataLoop::Segment* DataLoop::find(SegmentId id) {
  const auto it = segments_.find(id);
  return it == segments_.end() ? nullptr : &it->second;
}

void DataLoop::add_piece(PiecePtr piece) {
  auto& pieces = segments_[piece->id().segment].pieces;
  const auto same = [&](const PiecePtr& p) { return p->id() == piece->id(); };
  if (std::any_of(pieces.begin(), pieces.end(), same)) return;
  pieces.push_back(std::move(piece));
  std::sort(pieces.begin(), pieces.end(),
            [](const auto& a, const auto& b) { return a->segment_offset() < b->segment_offset(); });
}

void DataLoop::drop_piece(PieceId id) {
  Segment* s = find(id.segment);
  if (s == nullptr) return;
  std::erase_if(s->pieces, [&](const PiecePtr& p) { return p->id() == id; });
  if (s->pieces.empty() && !s->record) segments_.erase(id.segment);
}

void DataLoop::open_record(Record record) {
  Segment& s = segments_[record->id];
  if (s.record && s.record->layout_version > record->layout_version) return;
  s.record = std::move(record);
  s.placement = Placement(*s.record, node_.self().member, [this](MemberNo m) { return alive(m); });
}

void DataLoop::close_record(SegmentId id) {
  Segment* s = find(id);
  if (s == nullptr) return;
  s->record = nullptr;
  s->placement = {};
  if (s->pieces.empty()) segments_.erase(id);
}

void DataLoop::refresh_placements() {
  for (auto& [id, s] : segments_)
    if (s.record) s.placement = Placement(*s.record, node_.self().member, [this](MemberNo m) { return alive(m); });
}

Piece* DataLoop::find_piece(SegmentId id, std::uint64_t offset, std::uint64_t length) {
  Segment* s = find(id);
  if (s == nullptr) return nullptr;
  auto it = std::upper_bound(s->pieces.begin(), s->pieces.end(), offset,
                             [](std::uint64_t o, const PiecePtr& p) { return o < p->segment_offset(); });
  // Copies of one range may lie beside each other; the nearest is as good as any.
  if (it == s->pieces.begin()) return nullptr;
  Piece* p = std::prev(it)->get();
  return offset + length <= p->segment_offset() + p->bytes() ? p : nullptr;
}

// ---- sending what must stay put ----

std::uint64_t DataLoop::hold(Held held) {
  if (held_free_.empty()) {
    held_free_.push_back(static_cast<std::uint32_t>(held_.size()));
    held_.emplace_back();
  }
  const std::uint32_t index = held_free_.back();
  held_free_.pop_back();
  held_[index] = std::move(held);
  return index + 1;
}
std::uint64_t DataLoop::hold(PiecePtr piece) { return hold(Held{std::move(piece), {}}); }
std::uint64_t DataLoop::hold(Buffer buffer) { return hold(Held{nullptr, std::move(buffer)}); }

void DataLoop::release(std::uint64_t tag) {
  if (tag == 0 || tag > held_.size()) return;
  held_[tag - 1] = {};
  held_free_.push_back(static_cast<std::uint32_t>(tag - 1));
}

// ---- links that others opened ----

void DataLoop::adopt(std::unique_ptr<Link> link) { served_.push_back(std::move(link)); }

std::unique_ptr<Link> DataLoop::surrender(Link* link) {
  const auto it = std::find_if(served_.begin(), served_.end(), [&](const auto& l) { return l.get() == link; });
  VP_ASSERT(it != served_.end());
  auto taken = std::move(*it);
  served_.erase(it);
  return taken;
}

void DataLoop::accept_peers(transport::tcp::Listener* listener) {
  acceptor_.reset();
  if (listener != nullptr) acceptor_ = std::make_unique<Acceptor>(*this, *listener);
}

void DataLoop::adopt_client(ClientNo client, UniqueFd fd) {
  auto link = std::make_unique<ClientLink>(*this, client);
  if (auto s = link->start(std::move(fd), {.peer = fmt::format("client {}", client.value)}); !s)
    return log::warn("client {} gets no data channel: {}", client.value, s.error().message);
  adopt(std::move(link));
}

bool DataLoop::allowed(ClientNo client, SegmentId segment) const {
  const auto it = allowed_.find(client);
  return it != allowed_.end() && it->second.contains(segment);
}

void DataLoop::drop_client(ClientNo client) {
  allowed_.erase(client);
  for (auto& link : served_)
    if (auto* c = dynamic_cast<ClientLink*>(link.get()); c != nullptr && c->client() == client)
      c->close(error(VP_UNREACHABLE, "the client is gone"));
}

}  // namespace vrampool::service::data
