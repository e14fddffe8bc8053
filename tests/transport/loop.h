// A small poll() loop that drives streams until a condition holds: the tests' owner of DataStreams.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "transport/data_stream.h"
#include "transport/tcp/socket.h"

namespace vrampool::transport::testing {

// Records everything; lands bodies where `place` says.
struct Recorder : StreamHandler {
  struct Message {
    wire::DataHeader header;
    std::vector<std::byte> side, body;
    bool discarded = false;
  };
  std::vector<Message> messages;
  std::vector<std::pair<std::uint64_t, bool>> released;
  std::optional<Error> closed;
  int opened = 0;
  std::function<Status(const wire::DataHeader&, const wire::Ticket&)> judge;
  std::function<std::span<std::byte>(DataStream&, const wire::DataHeader&)> place;
  std::function<void(DataStream&, const Incoming&)> then;
  std::vector<std::byte> room = std::vector<std::byte>(kPagesPerMessageMax * kPageBytes);

  Status on_hello(DataStream&, const wire::DataHeader& h, const wire::Ticket& t) override { return judge(h, t); }
  void on_open(DataStream&) override { ++opened; }
  std::span<std::byte> on_header(DataStream& s, const wire::DataHeader& h) override {
    return place ? place(s, h) : std::span(room).first(body_bytes_of(h));
  }
  void on_message(DataStream& s, const Incoming& m) override {
    messages.push_back({m.header, {m.side.begin(), m.side.end()}, {m.body.begin(), m.body.end()}, m.discarded});
    if (then) then(s, m);
  }
  void on_released(DataStream&, std::uint64_t tag, bool sent) override { released.emplace_back(tag, sent); }
  std::map<DataStream*, int> closings;
  void on_closed(DataStream& s, const Error& why) override {
    CHECK(++closings[&s] == 1);
    closed = why;
  }
};

// Drives `streams` until `done` or the deadline; true if done.
inline bool drive(const std::vector<DataStream*>& streams, const std::function<bool()>& done, int seconds = 10) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  std::vector<bool> more(streams.size());
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::vector<pollfd> watched;
    for (auto* s : streams)
      watched.push_back({s->closed() ? -1 : s->fd(), static_cast<short>(POLLIN | (s->wants_write() ? POLLOUT : 0)), 0});
    const bool hurry = std::find(more.begin(), more.end(), true) != more.end();
    ::poll(watched.data(), watched.size(), hurry ? 0 : 50);
    for (std::size_t i = 0; i < streams.size(); ++i) {
      if (watched[i].revents & POLLOUT) streams[i]->on_writable();
      if (more[i] || (watched[i].revents & (POLLIN | POLLHUP | POLLERR)))
        more[i] = streams[i]->on_readable() == DataStream::Progress::more;
    }
  }
  return true;
}

inline std::pair<UniqueFd, UniqueFd> socket_pair() {
  int fds[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
  for (int fd : fds) REQUIRE(::fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

inline std::vector<std::byte> pattern(std::size_t bytes, std::uint64_t seed) {
  std::vector<std::byte> out(bytes);
  std::uint64_t x = seed * 0x9e3779b97f4a7c15ull + 1;
  for (auto& b : out) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    b = static_cast<std::byte>(x);
  }
  return out;
}

inline wire::DataHeader data_header(std::uint64_t request, std::size_t bytes) {
  wire::DataHeader h;
  h.kind = wire::DataKind::data;
  h.request = RequestNo{request};
  h.segment = {MemberNo{1}, Life{1}, 1};
  h.length = static_cast<std::uint32_t>(bytes);
  return h;
}

inline PoolKey key(const char* id, unsigned char fill) {
  return {id, std::vector<std::byte>(32, static_cast<std::byte>(fill))};
}

// A connected pair over TCP loopback: `asker` offers a ticket, `server` judges it.
struct TcpPair {
  Recorder asker_log, server_log;
  std::unique_ptr<DataStream> asker, server;

  explicit TcpPair(const TlsContext* client = nullptr, const TlsContext* serving = nullptr, std::byte ticket = {},
                   std::uint32_t queue = 128) {
    auto listener = tcp::Listener::open("127.0.0.1", 0);
    REQUIRE(listener.ok());
    auto fd = tcp::connect("127.0.0.1", listener->port());
    REQUIRE(fd.ok());
    StreamOptions ask;
    ask.greeting = Greeting::offer;
    ask.ticket.fill(ticket);
    ask.hello.source = {MemberNo{2}, Life{5}};
    ask.tls = client;
    ask.connecting = true;
    ask.send_queue_max = queue;
    ask.peer = "node-a";
    asker = std::move(*DataStream::create(std::move(*fd), ask, asker_log));
    std::optional<tcp::Accepted> taken;
    for (int i = 0; i < 1000 && !taken; ++i) {
      pollfd waiting{listener->fd(), POLLIN, 0};
      ::poll(&waiting, 1, 100);
      auto accepted = listener->accept();
      REQUIRE(accepted.ok());
      taken = std::move(*accepted);
    }
    REQUIRE(taken.has_value());
    StreamOptions serve;
    serve.greeting = Greeting::judge;
    serve.tls = serving;
    serve.peer = taken->peer;
    serve.send_queue_max = queue;
    server_log.judge = [](const wire::DataHeader& h, const wire::Ticket& t) -> Status {
      if (t[0] == std::byte{0} && h.source.member == MemberNo{2}) return {};
      return error(VP_DENIED, "that ticket is not known here");
    };
    server = std::move(*DataStream::create(std::move(taken->fd), serve, server_log));
  }
  std::vector<DataStream*> both() { return {asker.get(), server.get()}; }
  bool open() {
    return drive(both(), [&] { return asker->open() && server->open(); });
  }
};

}  // namespace vrampool::transport::testing
