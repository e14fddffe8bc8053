// Links over Boost.Asio and OpenSSL; one of the few files that see their headers.
#include "service/links.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <charconv>
#include <deque>
#include <set>

#include "membership/durable.h"
#include "transport/tls.h"
#include "wire/codec.h"

namespace vrampool::service {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

inline constexpr std::uint16_t kControlVersion = 1;

class LinksBody;

std::string reason(const error_code& failure, const std::string& address) {
  if (failure.category() == asio::error::get_ssl_category())
    return transport::tls_error(static_cast<unsigned long>(failure.value()), address).message;
  if (failure == asio::error::eof || failure == asio::ssl::error::stream_truncated)
    return "the other side closed the connection";
  return failure.message();
}

class Connection final : public Link, public std::enable_shared_from_this<Connection> {
 public:
  using Ready = std::function<void(Result<LinkPtr>)>;
  Connection(LinksBody& links, tcp::socket socket, asio::ssl::context& tls, const HostPort& far_end)
      : links_(&links), stream_(std::move(socket), tls), timer_(stream_.get_executor()) {
    facts_.address = to_text(far_end);
    facts_.host = far_end.host;
  }

  const PeerFacts& peer() const override { return facts_; }
  void send(std::vector<std::byte> message) override;
  void close(const std::string& why) override { fail(why); }

  void accept();
  void dial(const tcp::resolver::results_type& to, wire::LinkRole role, Ready ready);
  void orphan() { links_ = nullptr; }

 private:
  void arm(const char* what);
  void handshake(asio::ssl::stream_base::handshake_type side);
  void handshaken(const error_code& failure);
  void say(wire::BodyUnion body);
  void read_prefix(std::size_t max);
  void read_body(std::uint32_t length);
  void on_message();
  void on_first_message();
  void on_hello(const wire::HelloT&);
  void on_welcome(const wire::WelcomeT&);
  void open();
  void flush();
  void fail(const std::string& why);
  void finish_close();

  LinksBody* links_;
  asio::ssl::stream<tcp::socket> stream_;
  asio::steady_timer timer_;
  PeerFacts facts_;
  Ready ready_;
  bool open_ = false, closed_ = false, writing_ = false, last_words_ = false;
  std::array<std::byte, 4> prefix_{};
  std::vector<std::byte> body_;
  std::deque<std::vector<std::byte>> out_;
  std::size_t backlog_ = 0;
};

class LinksBody final : public Links {
 public:
  LinksBody(Loop& loop, LinkOwner& owner, transport::TlsContext server, transport::TlsContext client)
      : loop(loop),
        owner(owner),
        server_tls(server.share()),
        client_tls(client.share()),
        acceptor_(loop.context()),
        resolver_(loop.context()) {}
  ~LinksBody() override { close_all(); }
  Status listen(const std::string& address, std::uint16_t port) override;
  std::uint16_t port() const override { return port_; }
  void dial(const std::string& address, wire::LinkRole role, std::function<void(Result<LinkPtr>)> done) override;
  void close_all() override;

  Loop& loop;
  LinkOwner& owner;
  asio::ssl::context server_tls, client_tls;
  std::set<std::shared_ptr<Connection>> connections;
  std::size_t opening = 0;

 private:
  void accept_next();
  tcp::acceptor acceptor_;
  tcp::resolver resolver_;
  std::uint16_t port_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // handlers may run after close_all()
};

// ---- opening ----

void Connection::arm(const char* what) {
  timer_.expires_after(std::chrono::milliseconds(kConnectDeadlineMs));
  timer_.async_wait([self = weak_from_this(), what](error_code failure) {
    const auto me = self.lock();
    if (!failure && me && !me->open_)
      me->fail(fmt::format("{} took longer than {} s", what, kConnectDeadlineMs / 1000));
  });
}

void Connection::accept() {
  arm("the greeting");
  handshake(asio::ssl::stream_base::server);
}

void Connection::dial(const tcp::resolver::results_type& to, wire::LinkRole role, Ready ready) {
  facts_.role = role;
  facts_.dialled = true;
  ready_ = std::move(ready);
  arm("connecting");
  asio::async_connect(stream_.next_layer(), to,
                      [self = shared_from_this()](error_code failure, const tcp::endpoint& at) {
                        if (self->closed_) return;
                        if (failure) return self->fail(reason(failure, self->facts_.address));
                        self->facts_.host = at.address().to_string();
                        self->handshake(asio::ssl::stream_base::client);
                      });
}

void Connection::handshake(asio::ssl::stream_base::handshake_type side) {
  error_code ignored;
  stream_.next_layer().set_option(tcp::no_delay(true), ignored);
  stream_.next_layer().set_option(asio::socket_base::keep_alive(true), ignored);
  stream_.async_handshake(side, [self = shared_from_this()](error_code failure) { self->handshaken(failure); });
}

void Connection::handshaken(const error_code& failure) {
  if (closed_) return;
  if (failure) return fail(reason(failure, facts_.address));
  if (facts_.dialled) {
    wire::BodyUnion body;
    body.Set(links_->owner.hello(facts_.role));
    say(std::move(body));
  }
  read_prefix(kHelloBytesMax);
}

void Connection::say(wire::BodyUnion body) {
  wire::EnvelopeT envelope;
  envelope.body = std::move(body);
  send(wire::encode<wire::Envelope>(envelope));
}

void Connection::on_first_message() {
  auto envelope = wire::decode<wire::Envelope>(body_, "greeting");
  if (!envelope) return fail(envelope.error().message);
  if (const auto* hello = envelope->body.AsHello(); hello && !facts_.dialled) return on_hello(*hello);
  if (const auto* welcome = envelope->body.AsWelcome(); welcome && facts_.dialled) return on_welcome(*welcome);
  fail("the other side did not greet as vrampoold does");
}

void Connection::on_hello(const wire::HelloT& h) {
  facts_.node = membership::to_node_id(h.node);
  facts_.sender = h.sender;
  facts_.incarnation = Incarnation{h.incarnation};
  facts_.name = h.name;
  facts_.role = h.role;
  facts_.data_port = h.data_port;
  facts_.data_tls = h.data_tls;
  const PoolId pool{h.pool.hi(), h.pool.lo()};
  std::string refused = links_->owner.judge(facts_, pool);
  if (h.version_min > kControlVersion || h.version_max < kControlVersion)
    refused = fmt::format("speaks control versions {} to {}, this node speaks {}: update the older one", h.version_min,
                          h.version_max, kControlVersion);
  if (h.page_bytes != kPageBytes)
    refused = fmt::format("uses pages of {} bytes, this pool uses {}", h.page_bytes, kPageBytes);
  const wire::HelloT mine = links_->owner.hello(facts_.role);
  wire::WelcomeT w;
  w.version = kControlVersion;
  w.node = mine.node;
  w.sender = mine.sender;
  w.incarnation = mine.incarnation;
  w.name = mine.name;
  w.data_port = mine.data_port;
  w.data_tls = mine.data_tls;
  w.refused = refused;
  wire::BodyUnion body;
  body.Set(std::move(w));
  say(std::move(body));
  if (refused.empty()) return open();
  links_->owner.stranger_refused(facts_.address, refused);
  last_words_ = true;  // closed when the Welcome is out
}

void Connection::on_welcome(const wire::WelcomeT& w) {
  if (!w.refused.empty()) return fail("refused by " + facts_.address + ": " + w.refused);
  if (w.version != kControlVersion) return fail(fmt::format("{} speaks control version {}", facts_.address, w.version));
  facts_.node = membership::to_node_id(w.node);
  facts_.sender = w.sender;
  facts_.incarnation = Incarnation{w.incarnation};
  facts_.name = w.name;
  facts_.data_port = w.data_port;
  facts_.data_tls = w.data_tls;
  open();
}

void Connection::open() {
  open_ = true;
  if (!facts_.dialled) --links_->opening;
  timer_.cancel();
  const auto self = shared_from_this();
  links_->owner.link_up(self);
  if (ready_ && !closed_) std::exchange(ready_, nullptr)(LinkPtr(self));
}

// ---- frames ----

void Connection::read_prefix(std::size_t max) {
  asio::async_read(stream_, asio::buffer(prefix_), [self = shared_from_this(), max](error_code failure, std::size_t) {
    if (self->closed_) return;
    if (failure) return self->fail(reason(failure, self->facts_.address));
    const auto length = wire::frame_length(self->prefix_, max);
    if (!length) return self->fail(length.error().message);
    self->read_body(*length);
  });
}

void Connection::read_body(std::uint32_t length) {
  body_.resize(length);
  asio::async_read(stream_, asio::buffer(body_), [self = shared_from_this()](error_code failure, std::size_t) {
    if (self->closed_) return;
    if (failure) return self->fail(reason(failure, self->facts_.address));
    self->on_message();
  });
}

void Connection::on_message() {
  if (open_)
    links_->owner.link_message(shared_from_this(), body_);
  else
    on_first_message();
  if (!closed_ && !last_words_) read_prefix(open_ ? kControlMessageBytesMax : kHelloBytesMax);
}

void Connection::send(std::vector<std::byte> message) {
  if (closed_ || last_words_) return;
  backlog_ += message.size();
  if (backlog_ > kLinkBacklogBytesMax) return fail("it does not read what it is sent");
  out_.push_back(wire::frame(message));
  if (!writing_) flush();
}

void Connection::flush() {
  if (out_.empty()) {
    backlog_ = 0;
    if (last_words_) fail("refused");
    return;
  }
  writing_ = true;
  asio::async_write(stream_, asio::buffer(out_.front()), [self = shared_from_this()](error_code failure, std::size_t) {
    self->writing_ = false;
    if (self->closed_) return;
    if (failure) return self->fail(reason(failure, self->facts_.address));
    self->backlog_ -= std::min(self->backlog_, self->out_.front().size());
    self->out_.pop_front();
    self->flush();
  });
}

// ---- closing ----

void Connection::fail(const std::string& why) {
  if (std::exchange(closed_, true)) return;
  const auto self = shared_from_this();
  timer_.cancel();
  finish_close();
  if (!links_) return;
  LinksBody& links = *links_;
  links.connections.erase(self);
  if (!open_ && !facts_.dialled) --links.opening;
  if (ready_) return std::exchange(ready_, nullptr)(error(VP_UNREACHABLE, "{}: {}", facts_.address, why));
  if (open_)
    links.owner.link_down(self, why);
  else if (!last_words_)
    links.owner.stranger_refused(facts_.address, why);
}

void Connection::finish_close() {
  error_code ignored;
  stream_.next_layer().shutdown(tcp::socket::shutdown_both, ignored);
  stream_.next_layer().close(ignored);
}

// ---- listener and dialler ----

Status LinksBody::listen(const std::string& address, std::uint16_t port) {
  error_code failure;
  const auto ip = asio::ip::make_address(address, failure);
  if (failure) return error(VP_INVALID, "listen address \"{}\" is no IP address", address);
  const tcp::endpoint at(ip, port);
  acceptor_.open(at.protocol(), failure);
  if (!failure) acceptor_.set_option(asio::socket_base::reuse_address(true), failure);
  if (!failure) acceptor_.bind(at, failure);
  if (!failure) acceptor_.listen(asio::socket_base::max_listen_connections, failure);
  if (failure)
    return error(VP_BUSY, "cannot listen on {}:{}: {}: choose another control_port", address, port, failure.message());
  port_ = acceptor_.local_endpoint().port();
  accept_next();
  return {};
}

void LinksBody::accept_next() {
  acceptor_.async_accept([this, alive = std::weak_ptr<bool>(alive_)](error_code failure, tcp::socket socket) {
    if (failure == asio::error::operation_aborted || alive.expired()) return;
    if (!failure && opening < kLinksOpeningMax) {
      error_code gone;
      const tcp::endpoint from = socket.remote_endpoint(gone);
      auto c = std::make_shared<Connection>(*this, std::move(socket), server_tls,
                                            HostPort{from.address().to_string(), from.port()});
      ++opening;
      connections.insert(c);
      c->accept();
    }
    if (!failure) return accept_next();
    loop.after(Duration::millis(100), [this, alive] {
      if (!alive.expired()) accept_next();
    });  // out of descriptors: do not spin
  });
}

void LinksBody::dial(const std::string& address, wire::LinkRole role, std::function<void(Result<LinkPtr>)> done) {
  const auto to = parse_host_port(address);
  if (!to) return done(to.error());
  auto c = std::make_shared<Connection>(*this, tcp::socket(loop.context()), client_tls, *to);
  connections.insert(c);
  resolver_.async_resolve(to->host, std::to_string(to->port),
                          [this, c, role, done, address, alive = std::weak_ptr<bool>(alive_)](
                              error_code failure, const tcp::resolver::results_type& found) {
                            if (failure == asio::error::operation_aborted || alive.expired()) return;
                            if (!failure) return c->dial(found, role, done);
                            connections.erase(c);
                            done(error(VP_UNREACHABLE, "{}: {}", address, failure.message()));
                          });
}

void LinksBody::close_all() {
  error_code ignored;
  alive_.reset();
  acceptor_.close(ignored);
  resolver_.cancel();
  const auto all = std::exchange(connections, {});
  for (const auto& c : all) {
    c->orphan();
    c->close("stopping");
  }
}

}  // namespace

Result<std::unique_ptr<Links>> Links::create(Loop& loop, LinkOwner& owner, const PoolKey& key) {
  const transport::PoolKey psk{to_text(key.id), {key.bytes.begin(), key.bytes.end()}};
  VP_TRY(server, transport::TlsContext::server(std::span(&psk, 1)));
  VP_TRY(client, transport::TlsContext::client(psk));
  return std::unique_ptr<Links>(std::make_unique<LinksBody>(loop, owner, std::move(server), std::move(client)));
}

Result<HostPort> parse_host_port(std::string_view text) {
  const auto colon = text.rfind(':');
  HostPort out;
  if (colon == std::string_view::npos || colon == 0) return error(VP_INVALID, "\"{}\" is no host:port", text);
  std::string_view host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  const std::string_view port = text.substr(colon + 1);
  const auto parsed = std::from_chars(port.data(), port.data() + port.size(), out.port);
  if (parsed.ec != std::errc() || parsed.ptr != port.data() + port.size() || out.port == 0)
    return error(VP_INVALID, "\"{}\" is no host:port", text);
  out.host = std::string(host);
  return out;
}

std::string to_text(const HostPort& h) {
  return h.host.find(':') == std::string::npos ? fmt::format("{}:{}", h.host, h.port)
                                               : fmt::format("[{}]:{}", h.host, h.port);
}

}  // namespace vrampool::service
