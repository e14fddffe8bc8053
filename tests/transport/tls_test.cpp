// TLS 1.3 with the pool key: right key, wrong key, unknown key, a rotation, a stranger, exact bytes, records.
#include <doctest/doctest.h>

#include "loop.h"

using namespace vrampool;
using namespace vrampool::transport;
using namespace vrampool::transport::testing;

namespace {

TlsContext client(const PoolKey& k) { return *TlsContext::client(k); }
TlsContext server(std::vector<PoolKey> keys) { return *TlsContext::server(keys); }

void check_refused(TcpPair& p) {
  CHECK(drive(p.both(), [&] { return p.asker->closed() && p.server->closed(); }));
  for (const Recorder* log : {&p.asker_log, &p.server_log}) {
    REQUIRE(log->closed);
    CHECK(log->closed->message.find("wrong pool key") != std::string::npos);
    CHECK(log->closed->code == VP_DENIED);
    CHECK(log->opened == 0);
  }
}

}  // namespace

TEST_CASE("the same pool key on both sides opens a connection and carries bytes exactly") {
  const auto c = client(key("k1", 1)), s = server({key("k1", 1)});
  TcpPair p(&c, &s);
  REQUIRE(p.open());
  std::vector<std::vector<std::byte>> bodies;
  for (std::size_t i = 0; i < 60; ++i) bodies.push_back(pattern(i * 7919 % (6 * kPageBytes), i));
  for (std::size_t i = 0; i < bodies.size(); ++i)
    REQUIRE(p.server->send({data_header(i, bodies[i].size()), pattern(16, i), bodies[i], i + 1}));
  REQUIRE(drive(p.both(), [&] { return p.asker_log.messages.size() == bodies.size(); }));
  for (std::size_t i = 0; i < bodies.size(); ++i) CHECK(p.asker_log.messages[i].body == bodies[i]);
  CHECK(p.server_log.released.size() == bodies.size());
}

TEST_CASE("the same id with another secret is called a wrong pool key on both sides") {
  const auto c = client(key("k1", 1)), s = server({key("k1", 2)});
  TcpPair p(&c, &s);
  check_refused(p);
}

TEST_CASE("an unknown key id is called a wrong pool key on both sides") {
  const auto c = client(key("k9", 1)), s = server({key("k1", 1)});
  TcpPair p(&c, &s);
  check_refused(p);
}

TEST_CASE("during a rotation the old and the new key are both good") {
  const auto s = server({key("new", 2), key("old", 1)});
  for (const auto& k : {key("old", 1), key("new", 2)}) {
    const auto c = client(k);
    TcpPair p(&c, &s);
    CHECK(p.open());
  }
}

TEST_CASE("a plain peer cannot talk to a side that insists on tls, nor the other way round") {
  const auto c = client(key("k1", 1)), s = server({key("k1", 1)});
  TcpPair plain_asks(nullptr, &s);
  CHECK(drive(plain_asks.both(), [&] { return plain_asks.server->closed(); }));
  TcpPair tls_asks(&c, nullptr);
  CHECK(drive(tls_asks.both(), [&] { return tls_asks.asker->closed() && tls_asks.server->closed(); }));
  CHECK(tls_asks.server_log.opened == 0);
}

TEST_CASE("unusable keys are refused when the context is made") {
  CHECK_FALSE(TlsContext::client(key("", 1)).ok());
  CHECK_FALSE(TlsContext::client({"k1", std::vector<std::byte>(8)}).ok());
  CHECK_FALSE(TlsContext::server({}).ok());
}

TEST_CASE("under tls a full queue, a late reader and a hang-up behave as without") {
  const auto c = client(key("k1", 1)), s = server({key("k1", 1)});
  TcpPair p(&c, &s, {}, 8);
  REQUIRE(p.open());
  const auto body = pattern(kPagesPerMessageMax * kPageBytes, 5);
  std::size_t taken = 0;
  while (p.server->send({data_header(taken, body.size()), {}, body, taken + 1}) && taken < 1000) ++taken;
  CHECK(taken >= 8);
  CHECK(taken < 100);
  REQUIRE(drive(p.both(), [&] { return p.asker_log.messages.size() == taken; }));
  for (const auto& m : p.asker_log.messages) CHECK(m.body == body);
  p.server->close(error(VP_CANCELLED, "enough"));
  CHECK(drive(p.both(), [&] { return p.asker->closed(); }));
}

TEST_CASE("the borrowed context can be shared with another holder") {
  auto made = TlsContext::client(key("k1", 1));
  REQUIRE(made.ok());
  SSL_CTX* shared = made->share();
  CHECK(shared == made->native());
  const TlsContext again = *made;  // two holders here, one reference outside
  CHECK(again.native() == shared);
}
