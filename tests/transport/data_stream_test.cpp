// DataStream over unix sockets and TCP: exact bytes, full queues, damage, cuts, wrong guesses, late answers.
#include <doctest/doctest.h>

#include "loop.h"

using namespace vrampool;
using namespace vrampool::transport;
using namespace vrampool::transport::testing;

namespace {

struct UnixPair {
  Recorder a_log, b_log;
  std::unique_ptr<DataStream> a, b;
  explicit UnixPair(std::uint32_t queue = 128) {
    auto [x, y] = socket_pair();
    StreamOptions o;
    o.send_queue_max = queue;
    a = std::move(*DataStream::create(std::move(x), o, a_log));
    b = std::move(*DataStream::create(std::move(y), o, b_log));
  }
  std::vector<DataStream*> both() { return {a.get(), b.get()}; }
};

// One end is a stream, the other a bare socket that can misbehave.
struct RawPeer {
  Recorder log;
  std::unique_ptr<DataStream> stream;
  UniqueFd raw;
  explicit RawPeer(Greeting greeting = Greeting::none) {
    auto [x, y] = socket_pair();
    StreamOptions o;
    o.greeting = greeting;
    o.peer = "node-b";
    stream = std::move(*DataStream::create(std::move(x), o, log));
    raw = std::move(y);
  }
  void push(std::span<const std::byte> bytes) {
    REQUIRE(::send(raw.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  }
  void read_until_closed() {
    CHECK(drive({stream.get()}, [&] { return stream->closed(); }));
  }
};

std::vector<std::byte> packed(wire::DataHeader h, std::span<const std::byte> side, std::span<const std::byte> body) {
  h.payload_bytes = static_cast<std::uint32_t>(side.size() + body.size());
  const auto head = wire::encode(h);
  std::vector<std::byte> out(head.begin(), head.end());
  out.insert(out.end(), side.begin(), side.end());
  out.insert(out.end(), body.begin(), body.end());
  return out;
}

}  // namespace

TEST_CASE("a message arrives byte for byte and its body is released once") {
  UnixPair p;
  const auto body = pattern(3 * kPageBytes, 7);
  const auto side = pattern(12, 8);
  REQUIRE(p.a->send({data_header(9, body.size()), side, body, 42}));
  REQUIRE(drive(p.both(), [&] { return p.b_log.messages.size() == 1; }));
  CHECK(p.b_log.messages[0].header.request == RequestNo{9});
  CHECK(p.b_log.messages[0].side == side);
  CHECK(p.b_log.messages[0].body == body);
  CHECK(p.a_log.released == std::vector<std::pair<std::uint64_t, bool>>{{42, true}});
}

TEST_CASE("many messages of all sizes in flight keep order and bytes, both ways") {
  UnixPair p(512);
  std::vector<std::vector<std::byte>> bodies;
  for (std::size_t i = 0; i < 300; ++i) bodies.push_back(pattern(i % 5 == 0 ? 0 : i * 977 % (5 * kPageBytes), i));
  const auto send = [&](DataStream& s) {
    for (std::size_t i = 0; i < bodies.size(); ++i) {
      const auto side = pattern(wire::crc_table_bytes(static_cast<std::uint32_t>(bodies[i].size())), i);
      REQUIRE(s.send({data_header(i, bodies[i].size()), side, bodies[i], i + 1}));
    }
  };
  send(*p.a);
  send(*p.b);
  REQUIRE(drive(p.both(), [&] { return p.a_log.messages.size() == 300 && p.b_log.messages.size() == 300; }));
  for (const Recorder* log : {&p.a_log, &p.b_log})
    for (std::size_t i = 0; i < bodies.size(); ++i) {
      CHECK(log->messages[i].header.request == RequestNo{i});
      CHECK(log->messages[i].body == bodies[i]);
    }
  CHECK(p.a->stats().bytes_out == p.b->stats().bytes_in);
  CHECK(p.a->stats().messages_out == 300);
  CHECK(p.a->queued_bytes() == 0);
}

TEST_CASE("a full queue refuses and takes nothing") {
  UnixPair p(4);
  const auto body = pattern(kPagesPerMessageMax * kPageBytes, 1);  // larger than the socket buffer
  int taken = 0;
  while (p.a->send({data_header(1, body.size()), {}, body, 1}) && taken < 1000) ++taken;
  CHECK(taken >= 4);
  CHECK(taken < 10);
  CHECK(p.a->queue_room() == 0);
  CHECK(drive(p.both(), [&] { return p.b_log.messages.size() == static_cast<std::size_t>(taken); }));
  CHECK(p.a->send({data_header(2, 0)}));
}

TEST_CASE("closing releases every borrowed body before it tells") {
  UnixPair p;
  const auto body = pattern(kPagesPerMessageMax * kPageBytes, 1);
  for (std::uint64_t i = 1; i <= 3; ++i) REQUIRE(p.a->send({data_header(i, body.size()), {}, body, i}));
  p.a->close(error(VP_CANCELLED, "enough"));
  CHECK(p.a_log.released.size() == 3);
  CHECK(p.a_log.released.back() == std::pair<std::uint64_t, bool>{3, false});
  REQUIRE(p.a_log.closed);
  CHECK(p.a_log.closed->code == VP_CANCELLED);
  CHECK_FALSE(p.a->send({data_header(9, 0)}));
  CHECK(drive({p.b.get()}, [&] { return p.b->closed(); }));
}

TEST_CASE("a damaged header closes the stream, whichever bit it was") {
  for (std::size_t bit = 0; bit < wire::kDataHeaderBytes * 8; bit += 13) {
    RawPeer p;
    auto bytes = packed(data_header(1, 0), {}, {});
    bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    p.push(bytes);
    p.read_until_closed();
    REQUIRE(p.log.closed);
    CHECK(p.log.messages.empty());
    CHECK(p.log.closed->message.find("node-b") != std::string::npos);
  }
}

TEST_CASE("claims larger than the limits, or larger than their message, are refused before a byte lands") {
  wire::DataHeader h = data_header(1, kPageBytes);
  SUBCASE("a side part beyond the limit") { h.payload_bytes = kPageBytes + kSideBytesMax + 1; }
  SUBCASE("a body larger than the payload") { h.payload_bytes = kPageBytes - 1; }
  SUBCASE("a huge payload") { h.payload_bytes = 0xffffffff; }
  SUBCASE("a huge length") { h.length = h.payload_bytes = 0x7fffffff; }
  RawPeer p;
  bool asked = false;
  p.log.place = [&](DataStream&, const wire::DataHeader&) {
    asked = true;
    return std::span<std::byte>{};
  };
  const auto head = wire::encode(h);
  p.push(head);
  p.read_until_closed();
  CHECK_FALSE(asked);
}

TEST_CASE("a peer that is cut in the middle of a payload delivers nothing") {
  RawPeer p;
  const auto body = pattern(kPageBytes, 3);
  auto bytes = packed(data_header(1, body.size()), pattern(4, 1), body);
  bytes.erase(bytes.end() - 100, bytes.end());
  p.push(bytes);
  p.raw.reset();
  p.read_until_closed();
  CHECK(p.log.messages.empty());
  CHECK(p.log.closed->message.find("middle of a message") != std::string::npos);
}

TEST_CASE("a message that comes in single bytes is put together") {
  RawPeer p;
  const auto body = pattern(300, 3);
  const auto bytes = packed(data_header(5, body.size()), pattern(4, 1), body);
  std::vector<std::byte> landing(300);
  p.log.place = [&](DataStream&, const wire::DataHeader&) { return std::span(landing); };
  p.stream->expect(RequestNo{5}, landing);
  for (const auto b : bytes) {
    p.push(std::span(&b, 1));
    p.stream->on_readable();
  }
  REQUIRE(p.log.messages.size() == 1);
  CHECK(p.log.messages[0].body == body);
}

TEST_CASE("an expected answer takes one read; a wrong guess is repaired") {
  RawPeer p;
  std::vector<std::byte> mine(kPageBytes), other(2 * kPageBytes);
  p.log.place = [&](DataStream&, const wire::DataHeader& h) {
    return h.request == RequestNo{1} ? std::span(mine) : std::span(other).first(h.length);
  };
  const auto page = pattern(kPageBytes, 3), pages = pattern(2 * kPageBytes, 4);
  SUBCASE("the guess holds") {
    p.stream->expect(RequestNo{1}, mine);
    p.push(packed(data_header(1, page.size()), pattern(4, 1), page));
    CHECK(p.stream->on_readable() == DataStream::Progress::idle);
    REQUIRE(p.log.messages.size() == 1);
    CHECK(p.log.messages[0].body == page);
    CHECK(p.stream->stats().read_calls == 1);
  }
  SUBCASE("another answer comes first, then the expected one") {
    p.stream->expect(RequestNo{1}, mine);
    auto bytes = packed(data_header(2, pages.size()), pattern(8, 1), pages);
    const auto second = packed(data_header(1, page.size()), pattern(4, 1), page);
    bytes.insert(bytes.end(), second.begin(), second.end());
    p.push(bytes);
    CHECK(drive({p.stream.get()}, [&] { return p.log.messages.size() == 2; }));
    CHECK(p.log.messages[0].body == pages);
    CHECK(p.log.messages[1].body == page);
  }
  SUBCASE("many small messages come instead") {
    p.stream->expect(RequestNo{1}, mine);
    std::vector<std::byte> bytes;
    for (std::uint64_t i = 0; i < 150; ++i) {
      const auto one = packed(data_header(100 + i, 0), {}, {});
      bytes.insert(bytes.end(), one.begin(), one.end());
    }
    p.push(bytes);
    CHECK(drive({p.stream.get()}, [&] { return p.log.messages.size() == 150; }));
    CHECK(p.log.messages[149].header.request == RequestNo{249});
    CHECK(p.stream->stats().read_calls < 20);
  }
}

TEST_CASE("whatever the pieces in which bytes come, and whatever was guessed, messages are the same") {
  std::uint64_t x = 88172645463325252ull;
  const auto below = [&](std::uint64_t n) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return x % n;
  };
  for (int round = 0; round < 40; ++round) {
    RawPeer p;
    std::vector<std::byte> stream;
    std::vector<std::vector<std::byte>> bodies;
    for (std::uint64_t i = 0; i < 60; ++i) {
      const std::size_t sizes[] = {0, 0, 1, 4000, kPageBytes, 2 * kPageBytes, below(5 * kPageBytes)};
      bodies.push_back(pattern(sizes[below(7)], i));
      const auto one = packed(
          data_header(i, bodies.back().size()),
          pattern(below(2) ? wire::crc_table_bytes(static_cast<std::uint32_t>(bodies.back().size())) : below(200), i),
          bodies.back());
      stream.insert(stream.end(), one.begin(), one.end());
    }
    std::vector<std::byte> rooms(60 * 5 * kPageBytes);
    const auto room = [&](std::uint64_t i, std::size_t n) { return std::span(rooms).subspan(i * 5 * kPageBytes, n); };
    p.log.place = [&](DataStream&, const wire::DataHeader& h) {
      return below(10) == 0 ? std::span<std::byte>{} : room(h.request.value, h.length);
    };
    for (std::size_t at = 0; at < stream.size();) {
      const std::uint64_t next = p.log.messages.size(), guess = std::min<std::uint64_t>(59, next + below(3));
      if (below(2) && !bodies[guess].empty()) p.stream->expect(RequestNo{guess}, room(guess, bodies[guess].size()));
      const std::size_t most[] = {5, 200, 20000, 100000};
      const std::size_t n = std::min<std::size_t>(stream.size() - at, 1 + below(most[below(4)]));
      p.push(std::span(stream).subspan(at, n));
      at += n;
      while (p.stream->on_readable() == DataStream::Progress::more) {
      }
    }
    REQUIRE(p.log.messages.size() == 60);
    for (std::size_t i = 0; i < 60; ++i) {
      CHECK(p.log.messages[i].header.request == RequestNo{i});
      if (!p.log.messages[i].discarded) CHECK(p.log.messages[i].body == bodies[i]);
    }
  }
}

TEST_CASE("after divert not one more byte reaches the landing") {
  RawPeer p;
  std::vector<std::byte> landing(kPageBytes);
  p.log.place = [&](DataStream&, const wire::DataHeader&) { return std::span(landing); };
  const auto body = pattern(kPageBytes, 3);
  const auto bytes = packed(data_header(1, body.size()), pattern(4, 1), body);
  p.push(std::span(bytes).first(5000));
  p.stream->on_readable();
  p.stream->divert(RequestNo{1});
  const auto before = landing;
  p.push(std::span(bytes).subspan(5000));
  p.push(packed(data_header(2, 0), {}, {}));
  CHECK(drive({p.stream.get()}, [&] { return p.log.messages.size() == 2; }));
  CHECK(landing == before);
  CHECK(p.log.messages[0].discarded);
  CHECK(p.stream->stats().discarded == 1);
}

TEST_CASE("a body nobody wants is thrown away and the stream goes on") {
  UnixPair p;
  p.b_log.place = [](DataStream&, const wire::DataHeader&) { return std::span<std::byte>{}; };
  const auto body = pattern(40 * kPageBytes, 1);
  REQUIRE(p.a->send({data_header(1, body.size()), {}, body}));
  REQUIRE(p.a->send({data_header(2, 0)}));
  REQUIRE(drive(p.both(), [&] { return p.b_log.messages.size() == 2; }));
  CHECK(p.b_log.messages[0].discarded);
  CHECK(p.b_log.messages[1].header.request == RequestNo{2});
}

TEST_CASE("a handler may answer from inside and close from inside") {
  UnixPair p;
  p.b_log.then = [](DataStream& s, const Incoming& m) {
    if (m.header.request == RequestNo{3}) return s.close(error(VP_CANCELLED, "done"));
    CHECK(s.send({m.header}));
  };
  for (std::uint64_t i = 1; i <= 4; ++i) REQUIRE(p.a->send({data_header(i, 0)}));
  CHECK(drive(p.both(), [&] { return p.a->closed(); }));
  CHECK(p.b_log.messages.size() == 3);
  CHECK(p.a_log.messages.size() == 2);
}

TEST_CASE("nobody there is said plainly") {
  auto listener = tcp::Listener::open("127.0.0.1", 0);
  REQUIRE(listener.ok());
  const auto port = listener->port();
  { const auto gone = std::move(*listener); }
  auto fd = tcp::connect("127.0.0.1", port);
  if (!fd) return;  // refused at once is as good
  Recorder log;
  StreamOptions o;
  o.connecting = true;
  o.greeting = Greeting::offer;
  o.peer = "node-a";
  auto stream = std::move(*DataStream::create(std::move(*fd), o, log));
  CHECK(drive({stream.get()}, [&] { return stream->closed(); }));
  CHECK(log.closed->code == VP_UNREACHABLE);
  CHECK(log.closed->message.find("node-a") != std::string::npos);
}

TEST_CASE("a good ticket opens a connection, a bad one is refused with the reason") {
  TcpPair good;
  CHECK(good.open());
  CHECK(good.asker_log.opened == 1);
  CHECK(good.server_log.opened == 1);
  TcpPair bad(nullptr, nullptr, std::byte{1});
  CHECK(drive(bad.both(), [&] { return bad.asker->closed() && bad.server->closed(); }));
  CHECK(bad.asker_log.closed->code == VP_DENIED);
  CHECK(bad.asker_log.closed->message.find("ticket is not known") != std::string::npos);
}

TEST_CASE("before the greeting nothing but a greeting is taken") {
  RawPeer p(Greeting::judge);
  p.log.judge = [](const wire::DataHeader&, const wire::Ticket&) -> Status { return {}; };
  SUBCASE("a read") {
    wire::DataHeader h = data_header(1, 0);
    h.kind = wire::DataKind::read;
    p.push(packed(h, {}, {}));
  }
  SUBCASE("a body") { p.push(packed(data_header(1, 100), {}, pattern(100, 1))); }
  SUBCASE("a ticket of the wrong size") {
    wire::DataHeader h = data_header(1, 0);
    h.kind = wire::DataKind::hello;
    p.push(packed(h, pattern(31, 1), {}));
  }
  p.read_until_closed();
  CHECK(p.log.opened == 0);
  CHECK(p.log.messages.empty());
}

TEST_CASE("a peer that connects and says nothing stays not open and can be closed") {
  RawPeer p(Greeting::judge);
  CHECK_FALSE(drive(
      {p.stream.get()}, [&] { return p.stream->open(); }, 0));
  CHECK_FALSE(p.stream->send({data_header(1, 0)}));
  p.stream->close(error(VP_TIMEOUT, "no greeting"));
  CHECK(p.log.closed->code == VP_TIMEOUT);
}
