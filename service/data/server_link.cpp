#include "service/data/server_link.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/crc32c.h"
#include "base/log.h"
#include "platform/clock.h"
#include "service/data/checks.h"
#include "service/data/data_loop.h"

namespace vrampool::service::data {
namespace {

constexpr unsigned char kTlsHandshakeByte = 22;
// More than any number of askers that keep to PendingTable's bound can have waiting here.
constexpr std::uint32_t kAnswersMax = 1024;

}  // namespace

void ServerLink::take(DataLoop& loop, transport::tcp::Accepted accepted) {
  if (loop.unadmitted() >= kUnadmittedMax)
    return log::warn("too many data connections wait for admission; {} is turned away", accepted.peer);
  auto link = std::make_unique<ServerLink>(loop, std::move(accepted.fd), std::move(accepted.peer));
  loop.adopt(std::move(link));
}

ServerLink::ServerLink(DataLoop& loop, UniqueFd fd, std::string peer)
    : Link(loop),
      unread_(std::move(fd)),
      peer_(std::move(peer)),
      admitted_by_(platform::now() + Duration::millis(kConnectDeadlineMs)) {
  loop.events().wake_at(admitted_by_);
  if (auto token = loop.events().watch(unread_.get(), platform::PollFor::read, *this))
    unread_token_ = *token;
  else
    unread_.reset();
}

ServerLink::~ServerLink() { give_up(); }

void ServerLink::give_up() {
  if (unread_) loop_->events().unwatch(unread_token_, unread_.get());
  unread_.reset();
  if (stream_ && !dead()) stream_->close(error(VP_TIMEOUT, "{} was not admitted in time", peer_));
}

void ServerLink::on_event(const platform::PollEvent& event) {
  if (!unread_) return Link::on_event(event);
  unsigned char first = 0;
  const auto n = ::recv(unread_.get(), &first, 1, MSG_PEEK);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) {
    give_up();
    return loop_->bury_soon();
  }
  begin(first == kTlsHandshakeByte);
}

void ServerLink::begin(bool tls) {
  loop_->events().unwatch(unread_token_, unread_.get());
  const Node& node = loop_->node();
  UniqueFd fd = std::move(unread_);
  if (node.options.data_tls && !tls)
    return log::warn("{} wants a plain data connection, this node insists on tls", peer_), loop_->bury_soon();
  if (tls && !node.tls_server) return log::warn("{} speaks tls, this node has no pool key", peer_), loop_->bury_soon();
  transport::StreamOptions options;
  options.greeting = transport::Greeting::judge;
  options.tls = tls ? &*node.tls_server : nullptr;
  options.send_queue_max = kAnswersMax;
  options.peer = peer_;
  if (auto s = start(std::move(fd), std::move(options)); !s) {
    log::warn("data connection of {}: {}", peer_, s.error().message);
    loop_->bury_soon();
  }
}

Status ServerLink::on_hello(transport::DataStream&, const wire::DataHeader& hello, const wire::Ticket& ticket) {
  VP_TRY(sender, loop_->node().tickets.redeem(ticket));
  if (sender != hello.source) return error(VP_DENIED, "the ticket was issued to another member");
  if (hello.destination != loop_->node().self().member)
    return error(VP_DENIED, "this is member {}", loop_->node().self().member.value);
  if (!loop_->alive(sender))
    return error(VP_STALE, "member {} is not in this node's view in life {}", sender.member.value, sender.life.value);
  sender_ = sender;
  const auto& loops = loop_->node().loops;
  std::size_t target = 0;
  if ((hello.flags & wire::kDataBulk) != 0 && loops.size() > 1) target = 1 + sender.member.value % (loops.size() - 1);
  if (loops[target].get() != loop_) move_to_ = loops[target].get();
  return {};
}

void ServerLink::on_open(transport::DataStream&) {}

// Moves only when nothing it sent is held by this loop any more.
void ServerLink::after_event() {
  if (move_to_ == nullptr || stream_->queued() != 0) return;
  DataLoop* target = std::exchange(move_to_, nullptr);
  landing_ = {};
  detach();
  auto self = std::make_shared<std::unique_ptr<Link>>(loop_->surrender(this));
  target->post([self, target] {
    if (auto s = (*self)->attach(*target); !s)
      return log::warn("a data connection could not change its loop: {}", s.error().message);
    auto* link = static_cast<ServerLink*>(self->get());
    target->adopt(std::move(*self));
    link->judge_again();
  });
}

void ServerLink::judge_again() {
  if (open() && !loop_->alive(sender_))
    close(error(VP_STALE, "member {} is no longer in the view in life {}", sender_.member.value, sender_.life.value));
}

std::span<std::byte> ServerLink::on_header(transport::DataStream&, const wire::DataHeader& h) {
  if (h.kind != wire::DataKind::write) return {};
  if (!landing_) landing_ = loop_->buffers().take();
  return landing_.bytes().first(landing_ ? h.length : 0);
}

void ServerLink::on_message(transport::DataStream&, const transport::Incoming& in) {
  const wire::DataHeader& h = in.header;
  if (h.source != sender_) return refuse(h, error(VP_STALE, "this connection belongs to another life"));
  switch (h.kind) {
    case wire::DataKind::read:
      return (h.flags & wire::kDataEcho) != 0 ? answer_echo(h) : answer_read(h);
    case wire::DataKind::write:
      return answer_write(in);
    case wire::DataKind::ping:
      return answer(h, wire::DataKind::pong);
    default:
      return refuse(h, error(VP_INVALID, "a peer only reads, writes and pings here"));
  }
}

void ServerLink::on_released(transport::DataStream&, std::uint64_t tag, bool) { loop_->release(tag); }

void ServerLink::on_closed(transport::DataStream&, const Error& why) {
  log::debug("data connection of {} ends: {}", peer_, why.message);
}

void ServerLink::answer(const wire::DataHeader& to, wire::DataKind kind, std::span<const std::byte> side,
                        std::span<const std::byte> body, std::uint64_t tag) {
  transport::Outgoing out{to, side, body, tag};
  out.header.kind = kind;
  out.header.source = loop_->node().self();
  out.header.destination = sender_.member;
  out.header.epoch = loop_->epoch();
  out.header.length = kind == wire::DataKind::data ? static_cast<std::uint32_t>(body.size()) : to.length;
  if (send(out)) return;
  loop_->release(tag);
  // It asked for more than anybody may have open.
  close(error(VP_BUSY, "{} does not take its answers", peer_));
}

void ServerLink::refuse(const wire::DataHeader& to, const Error& why) {
  transport::Outgoing out{to, failure_text(why)};
  out.header.kind = wire::DataKind::failure;
  out.header.status = static_cast<std::uint16_t>(why.code);
  out.header.source = loop_->node().self();
  out.header.destination = sender_.member;
  if (!send(out)) close(error(VP_BUSY, "{} does not take its answers", peer_));
}

void ServerLink::answer_echo(const wire::DataHeader& h) {
  static const std::array<std::byte, kPagesPerMessageMax * kPageBytes> kNothing{};
  static const auto crcs = [] {
    std::array<std::uint32_t, kPagesPerMessageMax> t;
    t.fill(zero_page_crc());
    return t;
  }();
  answer(h, wire::DataKind::data, std::as_bytes(std::span(crcs)).first(wire::crc_table_bytes(h.length)),
         std::span(kNothing).first(h.length));
}

void ServerLink::answer_read(const wire::DataHeader& h) {
  if (auto s = check_whole_pages(h); !s) return refuse(h, s.error());
  Piece* piece = loop_->find_piece(h.segment, h.offset, h.length);
  if (piece == nullptr)
    return refuse(h, error(VP_NOT_FOUND, "segment {} has no piece here at {}", to_text(h.segment), h.offset));
  if (piece->state() == PieceState::creating)
    return refuse(h, error(VP_BUSY, "segment {} is still being written", to_text(h.segment)));
  const std::uint64_t at = h.offset - piece->segment_offset();
  const std::uint64_t page = at / kPageBytes, count = h.length / kPageBytes;
  loop_->node().counters.pages_served.fetch_add(count, std::memory_order_relaxed);
  if (piece->whole(page, count))
    return answer(h, wire::DataKind::data, std::as_bytes(piece->meta().crcs(page, count)), piece->view(at, h.length),
                  loop_->hold(loop_->share(*piece)));
  Buffer buffer = loop_->buffers().take();
  if (!buffer) return refuse(h, error(VP_BUSY, "no buffer is free"));
  std::array<std::uint32_t, kPagesPerMessageMax> crcs;
  for (std::uint64_t i = 0; i < count; ++i) crcs[i] = piece->crc(page + i);
  const auto body = buffer.bytes().first(h.length);
  piece->copy_out(at, body);
  answer(h, wire::DataKind::data, std::as_bytes(std::span(crcs)).first(count * 4), body,
         loop_->hold(std::move(buffer)));
}

Status ServerLink::apply_write(const transport::Incoming& in) {
  const wire::DataHeader& h = in.header;
  if (in.discarded) return error(VP_BUSY, "no buffer is free");
  VP_CHECK(check_whole_pages(h));
  std::array<std::uint32_t, kPagesPerMessageMax> crcs;
  VP_TRY(sound, check_crcs(in, crcs));
  if (sound != h.length / kPageBytes) {
    loop_->node().counters.crc_errors.fetch_add(1, std::memory_order_relaxed);
    return error(VP_CORRUPT, "page {} of a write arrived damaged", h.offset / kPageBytes + sound);
  }
  Piece* piece = loop_->find_piece(h.segment, h.offset, h.length);
  if (piece == nullptr) return error(VP_NOT_FOUND, "segment {} has no piece here at {}", to_text(h.segment), h.offset);
  return piece->write_pages(sender_, h.request, h.token, h.offset - piece->segment_offset(), in.body,
                            std::span(crcs).first(sound));
}

void ServerLink::answer_write(const transport::Incoming& in) {
  const Status applied = apply_write(in);
  applied ? answer(in.header, wire::DataKind::write_ok) : refuse(in.header, applied.error());
}

}  // namespace vrampool::service::data
