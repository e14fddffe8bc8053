// A DataStream's receiving half: header, landing, scatter; and the guess that saves a system call.
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "transport/data_stream_receive.h"

namespace vrampool::transport {
namespace {

// Takes `n` bytes off the front of what was read into a place of `room` bytes.
std::size_t share(std::size_t& n, std::size_t room) {
  const std::size_t part = std::min(n, room);
  n -= part;
  return part;
}

}  // namespace

DataStream::Progress DataStream::on_writable() {
  if (closed()) return Progress::closed;
  if (phase_ == Phase::connecting || phase_ == Phase::tls) advance();
  flush();
  if (closed()) return Progress::closed;
  // TLS may have waited for room to write before it could go on reading.
  return tls_ && tls_->has_pending() ? read_some() : Progress::idle;
}

DataStream::Progress DataStream::on_readable() {
  if (closed()) return Progress::closed;
  if (phase_ == Phase::connecting || phase_ == Phase::tls) advance();
  if (closed()) return Progress::closed;
  if (phase_ == Phase::connecting || phase_ == Phase::tls) return Progress::idle;
  return read_some();
}

DataStream::Progress DataStream::read_some() {
  std::size_t taken = 0;
  for (std::size_t reads = 0; reads < kFairReads && taken < kFairBytes; ++reads) {
    const Pulled pulled = in_->spilled() ? pull_spill() : tls_ ? pull_tls() : pull_plain();
    if (closed()) return Progress::closed;
    taken += pulled.bytes;
    if (pulled.drained && !in_->spilled()) return Progress::idle;
  }
  return Progress::more;
}

// Where the next bytes go, in order.
void DataStream::plan(ReadPlan& p, bool from_socket) {
  Receive& in = *in_;
  if (in.have_header) {
    p.add(std::span(in.side).subspan(in.side_have, in.side_bytes - in.side_have));
    if (in.discarding)
      p.add(std::span(in.scratch).first(std::min(in.scratch.size(), in.body_bytes - in.body_have)));
    else
      p.add(in.body.subspan(in.body_have));
    const bool whole = !in.discarding || in.body_bytes - in.body_have <= in.scratch.size();
    if (whole) p.add(in.head);  // the next message's header comes along
    return;
  }
  p.add(std::span(in.head).subspan(in.head_have));
  in.guess_in_flight = from_socket && in.guess.has_value();
  if (in.guess_in_flight) {
    p.add(std::span(in.side).first(wire::crc_table_bytes(static_cast<std::uint32_t>(in.guess->landing.size()))));
    p.add(in.guess->landing);
  } else if (from_socket && in.over_read) {
    p.add(std::span(in.spill).first(kSpillBytes));
  }
}

DataStream::Pulled DataStream::pull_plain() {
  ReadPlan p;
  plan(p, true);
  const bool guessing = in_->guess_in_flight;
  msghdr message{};
  message.msg_iov = p.places.data();
  message.msg_iovlen = static_cast<decltype(message.msg_iovlen)>(p.count);
  ++stats_.read_calls;
  const ssize_t n = ::recvmsg(fd_.get(), &message, 0);
  if (n > 0) {
    account(static_cast<std::size_t>(n), p);
    // After a good guess nothing else is expected; if something came, the poller says so again.
    return {static_cast<std::size_t>(n), guessing || static_cast<std::size_t>(n) < p.total};
  }
  if (n == 0)
    close_on_eof();
  else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
    fail_io(errno, "cannot read from");
  return {0, true};
}

DataStream::Pulled DataStream::pull_spill() {
  ReadPlan p;
  plan(p, false);
  Receive& in = *in_;
  std::size_t n = 0;
  for (int i = 0; i < p.count && in.spilled(); ++i) {
    const auto& place = p.places[static_cast<std::size_t>(i)];
    const std::size_t part = std::min(place.iov_len, in.spill_end - in.spill_begin);
    std::memcpy(place.iov_base, in.spill.data() + in.spill_begin, part);
    in.spill_begin += part;
    n += part;
  }
  account(n, p);
  return {n, false};
}

DataStream::Pulled DataStream::pull_tls() {
  ReadPlan p;
  plan(p, false);
  ++stats_.read_calls;
  const auto& place = p.places[0];  // a record never holds both a header and a page
  const auto moved = tls_->read({static_cast<std::byte*>(place.iov_base), place.iov_len});
  if (moved.outcome == TlsSession::Outcome::done) {
    account(moved.bytes, p);
    return {moved.bytes, false};
  }
  tls_wants_write_ |= moved.outcome == TlsSession::Outcome::want_write;
  if (moved.outcome == TlsSession::Outcome::closed) close_on_eof();
  if (moved.outcome == TlsSession::Outcome::failed) close(tls_->last_error(options_.peer));
  return {0, true};
}

void DataStream::close_on_eof() {
  const bool cut = in_->have_header || in_->head_have > 0;
  close(error(VP_UNREACHABLE, "{} {}", options_.peer,
              cut ? "hung up in the middle of a message" : "closed the connection"));
}

// `n` bytes have landed along the plan: move the state on by them, message by message.
void DataStream::account(std::size_t n, const ReadPlan& p) {
  Receive& in = *in_;
  stats_.bytes_in += n;
  do {
    if (!in.have_header) {
      in.head_have += share(n, in.head.size() - in.head_have);
      if (in.head_have < in.head.size() || !begin_message()) return;
      if (!guess_holds(p)) spill_rest(n, p);
    }
    in.side_have += share(n, in.side_bytes - in.side_have);
    in.body_have += share(n, in.body_bytes - in.body_have);
    if (in.wanted() > 0) return;
    in.head_have = std::exchange(n, 0);  // what came along of the next header
    finish_message();
  } while (!closed() && in.head_have == in.head.size());
}

// The header is whole: check bounds, ask where the body lands. False: the stream is closed.
bool DataStream::begin_message() {
  Receive& in = *in_;
  auto header = wire::decode_data_header(in.head);
  if (!header) {
    close(error(header.error().code, "{} from {}; the connection is closed", header.error().message, options_.peer));
    return false;
  }
  const std::uint32_t body = body_bytes_of(*header);
  if (header->payload_bytes < body || header->payload_bytes - body > kSideBytesMax || (body > 0 && !open())) {
    close(error(VP_CORRUPT, "{} sent a message of {} bytes that names {}; the connection is closed", options_.peer,
                header->payload_bytes, body));
    return false;
  }
  in.have_header = true;
  in.head_have = 0;
  in.header = *header;
  in.side_bytes = header->payload_bytes - body;
  in.body_bytes = body;
  in.side_have = in.body_have = 0;
  in.over_read = body == 0;
  in.guess.reset();
  choose_landing();
  return !closed();
}

void DataStream::choose_landing() {
  Receive& in = *in_;
  in.body = {};
  in.discarding = false;
  if (in.body_bytes == 0) return;
  in.body = handler_.on_header(*this, in.header);
  VP_ASSERT(in.body.empty() || in.body.size() == in.body_bytes);
  if (in.body.empty()) discard_rest();
}

void DataStream::discard_rest() {
  Receive& in = *in_;
  in.discarding = true;
  in.body = {};
  if (in.scratch.empty()) in.scratch.resize(kScratchBytes);
}

// True if the bytes behind the header were read to where they belong.
bool DataStream::guess_holds(const ReadPlan& p) {
  const Receive& in = *in_;
  if (!std::exchange(in_->guess_in_flight, false) || in.discarding) return false;
  const auto& side = p.places[1];
  const auto& landing = p.places[2];
  return in.side_bytes == side.iov_len && in.body_bytes == landing.iov_len && in.body.data() == landing.iov_base;
}

// The `n` bytes behind the header lie in the wrong places: line them up to be consumed again.
void DataStream::spill_rest(std::size_t& n, const ReadPlan& p) {
  Receive& in = *in_;
  if (n == 0) return;
  VP_ASSERT(!in.spilled() && n <= in.spill.size());
  in.spill_begin = 0;
  in.spill_end = n;
  std::size_t to = 0;
  for (int i = 1; i < p.count && n > 0; ++i) {
    const auto& place = p.places[static_cast<std::size_t>(i)];
    const std::size_t part = share(n, place.iov_len);
    if (place.iov_base != in.spill.data()) std::memcpy(in.spill.data() + to, place.iov_base, part);
    to += part;
  }
  stats_.bytes_in -= to;  // they are counted when they are used
}

void DataStream::finish_message() {
  Receive& in = *in_;
  in.have_header = false;
  ++stats_.messages_in;
  if (in.discarding) ++stats_.discarded;
  const Incoming message{in.header, std::span(in.side).first(in.side_bytes), in.body, in.discarding};
  open() ? handler_.on_message(*this, message) : handle_greeting(message);
}

void DataStream::expect(RequestNo request, std::span<std::byte> landing) {
  if (tls_ || landing.empty() || landing.size() > kGuessBytesMax) return;  // OpenSSL reads for itself
  if (in_->spill.size() < kSideBytesMax + kGuessBytesMax) in_->spill.resize(kSideBytesMax + kGuessBytesMax);
  in_->guess = Receive::Guess{request, landing};
}

void DataStream::divert(RequestNo request) {
  Receive& in = *in_;
  if (in.guess && in.guess->request == request) in.guess.reset();
  const bool receiving = in.have_header && in.header.kind == wire::DataKind::data && in.header.request == request;
  if (receiving && !in.discarding) discard_rest();
}

}  // namespace vrampool::transport
