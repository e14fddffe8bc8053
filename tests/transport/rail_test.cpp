// Rails: the TCP rail over several streams, and the fake link's seeded trouble.
#include <doctest/doctest.h>

#include "loop.h"
#include "transport/fake/fake_link.h"
#include "transport/tcp/tcp_rail.h"

using namespace vrampool;
using namespace vrampool::transport;
using namespace vrampool::transport::testing;

namespace {

struct RailLog : RailHandler {
  std::vector<std::byte> room = std::vector<std::byte>(1u << 22);
  std::map<std::uint64_t, std::span<std::byte>> places;
  std::vector<std::pair<std::uint64_t, std::vector<std::byte>>> came;
  std::vector<RailHealth> healths;
  std::vector<std::uint64_t> freed;
  std::function<void(const Incoming&)> then;
  std::span<std::byte> landing(const wire::DataHeader& h) override {
    return std::span(room).subspan(h.request.value % 64 * 65536, body_bytes_of(h));
  }
  void message(const Incoming& m) override {
    came.emplace_back(m.header.request.value, std::vector<std::byte>(m.body.begin(), m.body.end()));
    if (then) then(m);
  }
  void released(std::uint64_t tag, bool) override { freed.push_back(tag); }
  void health_changed(RailHealth h, const Error&) override { healths.push_back(h); }
};

struct Course {
  std::uint64_t hash = 7;
  fake::LinkStats stats;
};

Course play(std::uint64_t seed, const fake::Trouble& trouble) {
  RailLog a, b;
  fake::FakeLink link(seed, trouble, a, b);
  Course c;
  Instant now{};
  for (std::uint64_t i = 1; i <= 200; ++i) {
    const auto body = pattern(1000, i);
    link.left().send({data_header(i, body.size()), {}, body, i});
    now = now + Duration::micros(10);
    link.deliver(now);
  }
  while (link.deliver(link.next())) {
  }
  for (const auto& [no, bytes] : b.came)
    for (const auto byte : bytes) c.hash = (c.hash ^ no ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3ull;
  c.stats = link.stats();
  return c;
}

}  // namespace

TEST_CASE("a tcp rail spreads reads over its streams and answers come back whole") {
  auto listener = tcp::Listener::open("127.0.0.1", 0);
  REQUIRE(listener.ok());
  RailLog log;
  tcp::TcpRail rail(log, false);
  CHECK(rail.health() == RailHealth::rising);
  Recorder server;
  server.judge = [](const wire::DataHeader&, const wire::Ticket&) -> Status { return {}; };
  const auto body = pattern(2 * kPageBytes, 9);
  std::map<DataStream*, int> served;
  server.then = [&](DataStream& s, const Incoming& m) {
    ++served[&s];
    auto h = m.header;
    h.kind = wire::DataKind::data;
    CHECK(s.send({h, {}, std::span(body).first(h.length)}));
  };
  std::vector<std::unique_ptr<DataStream>> serving;
  for (int i = 0; i < 3; ++i) {
    StreamOptions o;
    o.greeting = Greeting::offer;
    o.connecting = true;
    REQUIRE(rail.add(std::move(*tcp::connect("127.0.0.1", listener->port())), o).ok());
    pollfd waiting{listener->fd(), POLLIN, 0};
    ::poll(&waiting, 1, 5000);
    auto taken = listener->accept();
    REQUIRE((taken.ok() && taken->has_value()));
    StreamOptions judge;
    judge.greeting = Greeting::judge;
    serving.push_back(std::move(*DataStream::create(std::move((*taken)->fd), judge, server)));
  }
  const auto all = [&] {
    auto s = rail.streams();
    for (auto& x : serving) s.push_back(x.get());
    return s;
  };
  REQUIRE(drive(all(), [&] { return server.opened == 3 && rail.credits() == 3 * tcp::kAsksPerStreamMax; }));
  CHECK(rail.health() == RailHealth::up);
  for (std::uint64_t i = 0; i < 30; ++i) REQUIRE(rail.read_pages(data_header(i, body.size())));
  CHECK(rail.outstanding_bytes() >= 30 * body.size());
  REQUIRE(drive(all(), [&] { return log.came.size() == 30; }));
  for (const auto& [no, bytes] : log.came) CHECK(bytes == body);
  CHECK(rail.outstanding_bytes() == 0);
  CHECK(served.size() == 3);
  serving[0]->close(error(VP_CANCELLED, "gone"));
  REQUIRE(drive(all(), [&] { return rail.health() == RailHealth::sick; }));
  rail.sweep();
  CHECK(rail.health() == RailHealth::up);
  for (auto& s : serving) s->close(error(VP_CANCELLED, "gone"));
  REQUIRE(drive(all(), [&] { return rail.health() == RailHealth::down; }));
  CHECK_FALSE(rail.read_pages(data_header(99, 1)));
}

TEST_CASE("a calm fake link carries everything, in delays that reorder") {
  RailLog a, b;
  fake::FakeLink link(5, {}, a, b);
  for (std::uint64_t i = 1; i <= 60; ++i) CHECK(link.left().send({data_header(i, 0), {}, {}, i}));
  CHECK(a.freed.size() == 60);
  CHECK(link.left().credits() == 4);
  while (link.deliver(link.next())) {
  }
  CHECK(b.came.size() == 60);
  CHECK_FALSE(std::is_sorted(b.came.begin(), b.came.end()));
  CHECK(link.left().credits() == 64);
}

TEST_CASE("each kind of trouble happens, and the same seed brings the same course") {
  fake::Trouble t;
  t.loss = t.doubled = t.damaged = 0.2;
  const Course one = play(3, t), two = play(3, t), other = play(4, t);
  CHECK(one.hash == two.hash);
  CHECK(one.hash != other.hash);
  CHECK(one.stats.lost > 0);
  CHECK(one.stats.doubled > 0);
  CHECK(one.stats.damaged > 0);
  t.cut = 0.05;
  CHECK(play(3, t).stats.cut == 1);
}

TEST_CASE("a severed link is down at both ends and takes nothing more") {
  RailLog a, b;
  fake::FakeLink link(1, {}, a, b);
  link.left().send({data_header(1, 0)});
  link.sever();
  CHECK(a.healths == std::vector{RailHealth::down});
  CHECK(b.healths == std::vector{RailHealth::down});
  CHECK_FALSE(link.right().send({data_header(1, 0)}));
  CHECK_FALSE(link.deliver(Instant{1'000'000'000}));
  CHECK(b.came.empty());
}
