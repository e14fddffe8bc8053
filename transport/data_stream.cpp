// A DataStream's life: creation, connection set-up (TCP, TLS, greeting) and closing.
#include "transport/data_stream.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "transport/data_stream_receive.h"

namespace vrampool::transport {

Status StreamHandler::on_hello(DataStream& stream, const wire::DataHeader&, const wire::Ticket&) {
  return error(VP_DENIED, "data connections are not taken here; {} was refused", stream.peer());
}

Result<std::unique_ptr<DataStream>> DataStream::create(UniqueFd fd, StreamOptions options, StreamHandler& handler) {
  VP_ASSERT(fd && options.send_queue_max > 0);
  std::unique_ptr<DataStream> stream(new DataStream(std::move(fd), std::move(options), handler));
  const StreamOptions& o = stream->options_;
  if (o.tls != nullptr) {
    const auto side = o.greeting == Greeting::offer ? TlsSide::client : TlsSide::server;
    VP_TRY(session, TlsSession::create(*o.tls, side, stream->fd_.get()));
    stream->tls_ = std::move(session);
  }
  if (o.greeting == Greeting::none && o.tls == nullptr && !o.connecting) stream->phase_ = Phase::open;
  return stream;
}

DataStream::DataStream(UniqueFd fd, StreamOptions options, StreamHandler& handler)
    : fd_(std::move(fd)), options_(std::move(options)), handler_(handler), in_(std::make_unique<Receive>()) {
  queue_.resize(options_.send_queue_max);
  in_->spill.resize(kSpillBytes);
#ifdef SO_NOSIGPIPE
  const int on = 1;
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
}

DataStream::~DataStream() {
  while (queue_size_ > 0) pop_front(false);
}

// ---- set-up ----

bool DataStream::pass_connecting() {
  if (options_.connecting) {
    int failure = 0;
    socklen_t bytes = sizeof failure;
    if (::getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &failure, &bytes) != 0) failure = errno;
    if (failure != 0) {
      close(error(VP_UNREACHABLE, "cannot connect to {}: {}", options_.peer, std::strerror(failure)));
      return false;
    }
    sockaddr_storage where{};
    socklen_t where_bytes = sizeof where;
    if (::getpeername(fd_.get(), reinterpret_cast<sockaddr*>(&where), &where_bytes) != 0) return false;  // not yet
  }
  phase_ = tls_ ? Phase::tls : Phase::greeting;
  return true;
}

bool DataStream::pass_tls() {
  const auto outcome = tls_->handshake();
  tls_wants_write_ = outcome == TlsSession::Outcome::want_write;
  if (outcome == TlsSession::Outcome::done) {
    phase_ = Phase::greeting;
    return true;
  }
  if (outcome == TlsSession::Outcome::failed) close(tls_->last_error(options_.peer));
  if (outcome == TlsSession::Outcome::closed)
    close(error(VP_DENIED, "{} hung up during the tls handshake; compare the pool keys", options_.peer));
  return false;
}

void DataStream::begin_greeting() {
  if (options_.greeting == Greeting::none) return become_open();
  if (options_.greeting == Greeting::judge) return;
  wire::DataHeader hello = options_.hello;
  hello.kind = wire::DataKind::hello;
  put({hello, options_.ticket});
  flush();
}

void DataStream::become_open() {
  phase_ = Phase::open;
  handler_.on_open(*this);
}

void DataStream::advance() {
  if (phase_ == Phase::connecting && !pass_connecting()) return;
  if (phase_ == Phase::tls && !pass_tls()) return;
  if (phase_ == Phase::greeting && !std::exchange(greeted_, true)) begin_greeting();
}

void DataStream::handle_greeting(const Incoming& m) {
  if (options_.greeting == Greeting::judge) return judge_hello(m);
  if (m.header.kind == wire::DataKind::hello_ok) return become_open();
  if (m.header.kind != wire::DataKind::failure)
    return close(error(VP_CORRUPT, "{} answered a greeting with something else", options_.peer));
  const std::string text(reinterpret_cast<const char*>(m.side.data()), m.side.size());
  close(error(static_cast<vp_status>(m.header.status), "{} refused the data connection: {}", options_.peer, text));
}

void DataStream::judge_hello(const Incoming& m) {
  if (m.header.kind != wire::DataKind::hello || m.side.size() != wire::kTicketBytes)
    return close(error(VP_CORRUPT, "{} did not greet with a ticket", options_.peer));
  wire::Ticket ticket;
  std::memcpy(ticket.data(), m.side.data(), ticket.size());
  wire::DataHeader answer;
  answer.source = {m.header.destination, {}};
  answer.destination = m.header.source.member;
  answer.request = m.header.request;
  auto verdict = handler_.on_hello(*this, m.header, ticket);
  if (closed()) return;
  answer.kind = verdict ? wire::DataKind::hello_ok : wire::DataKind::failure;
  if (verdict) {
    put({answer});
    become_open();
    return flush();
  }
  answer.status = static_cast<std::uint16_t>(verdict.error().code);
  const std::string text = verdict.error().message.substr(0, kSideBytesMax);
  put({answer, std::as_bytes(std::span(text))});
  flush();
  close(verdict.take_error());
}

// ---- the end ----

void DataStream::close(Error why) {
  if (closed()) return;
  phase_ = Phase::closed;
  in_->guess.reset();
  while (queue_size_ > 0) pop_front(false);
  ::shutdown(fd_.get(), SHUT_RDWR);  // the descriptor itself stays until the owner has stopped watching it
  handler_.on_closed(*this, why);
}

void DataStream::fail_io(int errno_value, const char* what) {
  close(error(VP_UNREACHABLE, "{} {}: {}", what, options_.peer, std::strerror(errno_value)));
}

bool DataStream::wants_write() const {
  if (closed()) return false;
  if (phase_ == Phase::connecting || tls_wants_write_) return true;
  return queue_size_ > 0 && phase_ != Phase::tls;
}

}  // namespace vrampool::transport
