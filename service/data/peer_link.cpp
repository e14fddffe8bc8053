#include "service/data/peer_link.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "platform/clock.h"
#include "service/data/data_loop.h"
#include "transport/tcp/socket.h"

namespace vrampool::service::data {
namespace {

constexpr Duration kRestFirst = Duration::millis(20);
constexpr Duration kRestMost = Duration::seconds(1);
constexpr Duration kDeadlineScan = Duration::millis(50);

}  // namespace

// ---- the table ----

PendingTable::Entry* PendingTable::find(RequestNo request) {
  for (std::size_t i = start(request);; ++i) {
    Entry& e = slots_[i % kSlots];
    if (e.request == request) return &e;
    if (e.request.value == 0) return nullptr;
  }
}

PendingTable::Entry& PendingTable::insert(RequestNo request) {
  VP_ASSERT(!full() && request.value != 0);
  std::size_t i = start(request);
  while (slots_[i % kSlots].request.value != 0) ++i;
  ++used_;
  slots_[i % kSlots] = {.request = request};
  return slots_[i % kSlots];
}

void PendingTable::erase(RequestNo request) {
  Entry* e = find(request);
  if (e == nullptr) return;
  auto hole = static_cast<std::size_t>(e - slots_.data());
  *e = {};
  --used_;
  // Entries that were pushed past the hole move back into it.
  for (std::size_t i = (hole + 1) % kSlots; slots_[i].request.value != 0; i = (i + 1) % kSlots) {
    const std::size_t home = start(slots_[i].request) % kSlots;
    if ((i - home) % kSlots < (i - hole) % kSlots) continue;
    slots_[hole] = slots_[i];
    slots_[i] = {};
    hole = i;
  }
}

// ---- asking ----

PeerLink::PeerLink(DataLoop& loop, Peer peer, bool bulk) : Link(loop), peer_(std::move(peer)), bulk_(bulk) {}

Status PeerLink::ask(const Ask& ask) {
  if (retired_) return error(VP_UNREACHABLE, "member {} is gone", peer_.member.value);
  if (phase_ == Phase::resting)
    return error(VP_UNREACHABLE, "no data connection to member {} at the moment", peer_.member.value);
  if (pending_.full() || deferred_.size() >= PendingTable::kPendingMax)
    return error(VP_BUSY, "too many requests to member {} are waiting", peer_.member.value);
  if (pending_.find(ask.header.request) != nullptr)
    return error(VP_BUSY, "request {} is waiting already", ask.header.request.value);
  auto& entry = pending_.insert(ask.header.request);
  entry.asker = ask.asker;
  entry.cookie = ask.cookie;
  entry.deadline = ask.deadline;
  entry.kind = ask.header.kind;
  entry.segment = ask.header.segment;
  entry.offset = ask.header.offset;
  entry.length = ask.header.length;
  if (ask.deadline.ns != 0) loop_->events().wake_at(platform::now() + kDeadlineScan);
  if (phase_ == Phase::open) {
    const bool pushed = push(ask);
    auto* still = pending_.find(ask.header.request);
    if (still == nullptr) return {};  // the connection broke just now, and the asker has heard of it
    still->sent = pushed;
    // Alone on the way: its answer is what comes next, and one system call can read all of it.
    if (pushed && still->kind == wire::DataKind::read && pending_.size() == 1)
      stream_->expect(still->request, landing_of(*still));
    if (pushed) return {};
  }
  deferred_.push_back({ask, {}});
  if (!ask.side.empty()) std::memcpy(deferred_.back().side.data(), ask.side.data(), ask.side.size());
  dial();
  return {};
}

bool PeerLink::push(const Ask& ask) {
  transport::Outgoing out{ask.header, ask.side, ask.body, 0};
  out.header.source = loop_->node().self();
  out.header.destination = peer_.member;
  out.header.epoch = loop_->epoch();
  return send(out);
}

void PeerLink::forget(RequestNo request) {
  auto* entry = pending_.find(request);
  if (entry == nullptr) return;
  if (stream_) stream_->divert(request);
  pending_.erase(request);
}

// ---- connecting ----

void PeerLink::dial() {
  if (phase_ != Phase::idle || retired_) return;
  phase_ = Phase::asking_ticket;
  phase_deadline_ = platform::now() + Duration::millis(kConnectDeadlineMs);
  loop_->events().wake_at(phase_deadline_);
  const std::uint64_t dial_no = ++dial_no_;
  Node& node = loop_->node();
  node.post([&node, loop = loop_, member = peer_.member, dial_no] {
    node.options.ask_ticket(member, [loop, member, dial_no, still = node.life()](Result<wire::Ticket> ticket) {
      if (still.expired()) return;
      loop->post([loop, member, dial_no, ticket = std::move(ticket)] {
        if (PeerLink* link = loop->peer(member)) link->connect(dial_no, ticket);
      });
    });
  });
}

void PeerLink::connect(std::uint64_t dial_no, Result<wire::Ticket> ticket) {
  if (phase_ != Phase::asking_ticket || dial_no != dial_no_) return;
  if (!ticket) return failed(ticket.error());
  if (auto s = open_stream(*ticket); !s) failed(s.error());
}

Status PeerLink::open_stream(const wire::Ticket& ticket) {
  const Node& node = loop_->node();
  const bool tls = peer_.tls || node.options.data_tls;
  if (tls && !node.tls_client)
    return error(VP_INVALID, "member {} wants tls for data, but this node has no pool key", peer_.member.value);
  VP_TRY(fd, transport::tcp::connect(peer_.host, peer_.data_port));
  transport::StreamOptions options;
  options.greeting = transport::Greeting::offer;
  options.hello.source = node.self();
  options.hello.destination = peer_.member;
  options.hello.epoch = loop_->epoch();
  options.hello.flags = bulk_ ? wire::kDataBulk : 0;
  options.ticket = ticket;
  options.tls = tls ? &*node.tls_client : nullptr;
  options.connecting = true;
  options.send_queue_max = PendingTable::kPendingMax;
  options.peer = fmt::format("member {} ({}:{})", peer_.member.value, peer_.host, peer_.data_port);
  phase_ = Phase::greeting;
  return start(std::move(fd), std::move(options));
}

void PeerLink::on_open(transport::DataStream&) {
  phase_ = Phase::open;
  rest_ = {};
  complained_ = false;
  std::vector<Deferred> waiting;
  waiting.swap(deferred_);
  for (Deferred& d : waiting) {
    auto* entry = pending_.find(d.ask.header.request);
    if (entry == nullptr || entry->sent) continue;
    d.ask.side = std::span(d.side).first(d.ask.side.size());
    entry->sent = push(d.ask);
    if (!entry->sent) deferred_.push_back(d);
  }
}

void PeerLink::on_closed(transport::DataStream&, const Error& why) { failed(why); }

void PeerLink::failed(const Error& why) {
  phase_ = Phase::resting;
  rest_ = std::clamp(rest_ * 2, kRestFirst, kRestMost);
  phase_deadline_ = platform::now() + rest_;
  loop_->events().wake_at(phase_deadline_);
  if (!std::exchange(complained_, true) && !retired_) {
    const Node& node = loop_->node();
    if (node.options.peer_failed)
      node.post([&node, member = peer_.member, text = why.message] { node.options.peer_failed(member, text); });
  }
  // Whatever ended the connection says nothing about the bytes: a peer that does not know our life yet will soon.
  fail_all(Error{VP_UNREACHABLE, why.message});
}

void PeerLink::fail_all(const Error& why) {
  deferred_.clear();
  std::vector<PendingTable::Entry> ended;
  pending_.each([&](PendingTable::Entry& e) { ended.push_back(e); });
  for (const auto& e : ended) pending_.erase(e.request);
  for (const auto& e : ended) e.asker->unanswered(e.cookie, why);
}

void PeerLink::retire(const Error& why) {
  retired_ = true;
  if (stream_ && !stream_->closed())
    close(why);
  else
    fail_all(why);
}

Instant PeerLink::tick(Instant now) {
  Instant next = kNever;
  if ((phase_ == Phase::asking_ticket || phase_ == Phase::greeting) && now >= phase_deadline_) {
    const Error why =
        error(VP_TIMEOUT, "no data connection to member {} within {} ms", peer_.member.value, kConnectDeadlineMs);
    if (phase_ == Phase::greeting)
      close(why);
    else
      failed(why);
  }
  if (phase_ == Phase::resting && now >= phase_deadline_ && !retired_) phase_ = Phase::idle;
  if (phase_ != Phase::idle && phase_ != Phase::open) next = phase_deadline_;
  std::array<PendingTable::Entry, 16> late;
  std::size_t n = 0;
  pending_.each([&](const PendingTable::Entry& e) {
    if (e.deadline.ns == 0) return;
    next = std::min(next, std::max(e.deadline, now + kDeadlineScan));
    if (e.deadline <= now && n < late.size()) late[n++] = e;
  });
  for (std::size_t i = 0; i < n; ++i) {
    const Error why = error(VP_TIMEOUT, "member {} did not answer in time", peer_.member.value);
    // A write's body is borrowed by the stream; only closing gives it back for sure.
    if (late[i].kind == wire::DataKind::write && late[i].sent && !dead()) close(why);
    if (pending_.find(late[i].request) == nullptr) continue;
    forget(late[i].request);
    late[i].asker->unanswered(late[i].cookie, why);
  }
  return next;
}

// ---- answers ----

// The request that this message answers, if it fits what was asked.
PendingTable::Entry* PeerLink::expected(const wire::DataHeader& h) {
  auto* e = pending_.find(h.request);
  if (e == nullptr) return nullptr;
  if (h.kind == wire::DataKind::data &&
      (e->kind != wire::DataKind::read || h.segment != e->segment || h.offset != e->offset || h.length != e->length))
    return nullptr;
  return e;
}

std::span<std::byte> PeerLink::on_header(transport::DataStream&, const wire::DataHeader& h) {
  auto* e = expected(h);
  if (e == nullptr || h.kind != wire::DataKind::data) return {};
  return landing_of(*e);
}

std::span<std::byte> PeerLink::landing_of(const PendingTable::Entry& e) {
  if (auto where = e.asker->landing(e.cookie); !where.empty()) return where.first(e.length);
  if (!scratch_) scratch_ = loop_->buffers().take();
  return scratch_.bytes().first(scratch_ ? e.length : 0);
}

void PeerLink::on_message(transport::DataStream&, const transport::Incoming& in) {
  auto* e = expected(in.header);
  if (e == nullptr) return;
  const PendingTable::Entry entry = *e;
  pending_.erase(entry.request);
  if (in.header.kind == wire::DataKind::data && in.discarded)
    return entry.asker->unanswered(entry.cookie,
                                   error(VP_BUSY, "no buffer was free for an answer of member {}", peer_.member.value));
  entry.asker->answered(entry.cookie, in);
}

}  // namespace vrampool::service::data
