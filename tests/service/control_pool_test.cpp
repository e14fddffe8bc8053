// Several daemons in one process, linked by TLS over loopback: entering, names on every member, loss of the
// coordinator.
#include <boost/json.hpp>

#include "control_rig.h"

using namespace vrampool;
using namespace vrampool::service;

namespace {

std::string name_state(Rig& rig, std::size_t i, const std::string& name) {
  auto doc = rig.client(i).verb("ls");
  if (!doc) return doc.error().message;
  for (const auto& s : doc->at("segments").as_array())
    if (s.at("name").as_string() == name) return std::string(s.at("state").as_string());
  return "absent";
}

Status seal(TestClient& client, SegmentId id) {
  wire::SealSegmentT ask;
  ask.id = id;
  auto body = client.ask(std::move(ask));
  if (!body) return body.take_error();
  return {};
}

Status put(Rig& rig, std::size_t i, const std::string& name) {
  TestClient client = rig.client(i);
  VP_TRY(id, client.create(name, 3 * kPageBytes));
  return seal(client, id);
}

std::string pool_of(Rig& rig, std::size_t i, const char* key) {
  auto doc = rig.client(i).verb("status");
  return doc ? text_at(doc->at("pool").as_object(), key) : "";
}

}  // namespace

TEST_CASE("a daemon without a pool serves status, init and join, and refuses the rest in one line") {
  Rig rig(1);
  TestClient client = rig.client(0);
  auto status = client.verb("status");
  REQUIRE_OK(status);
  CHECK(text_at(status->at("pool").as_object(), "state") == "none");
  const auto created = client.create("x", 1);
  REQUIRE_FALSE(created.ok());
  CHECK(created.error().message.find("vrampool init") != std::string::npos);
  CHECK_FALSE(client.verb("invite").ok());
  REQUIRE_OK(client.verb("init"));
  CHECK(client.verb("init").error().code == VP_EXISTS);
}

TEST_CASE("what one member creates, every member knows by name") {
  Rig rig(3);
  rig.make_pool();
  const Status made = put(rig, 1, "llama/weights");
  REQUIRE_OK(made);
  for (std::size_t i = 0; i < 3; ++i)
    CHECK(eventually([&] { return name_state(rig, i, "llama/weights") == "sealed"; }));
  TestClient reader = rig.client(2);
  wire::OpenSegmentT open;
  open.name = "llama/weights";
  auto opened = reader.ask(std::move(open));
  REQUIRE_OK(opened);
  const wire::RecordT& record = *opened->AsOpened()->record;
  CHECK(record.bytes == 3 * kPageBytes);
  for (const auto& piece : record.pieces) CHECK(piece->sha256.size() == 32);
  wire::RemoveSegmentT remove;
  remove.name = "llama/weights";
  REQUIRE_OK(reader.ask(std::move(remove)));
  for (std::size_t i = 0; i < 3; ++i)
    CHECK(eventually([&] { return name_state(rig, i, "llama/weights") == "absent"; }));
  CHECK(eventually([&] { return rig.medium.pieces() == 0; }));
}

TEST_CASE("a newer segment of the same name takes the name over at its seal") {
  Rig rig(2);
  rig.make_pool();
  REQUIRE_OK(put(rig, 0, "m"));
  TestClient client = rig.client(1);
  const auto second = client.create("m", kPageBytes);
  REQUIRE_OK(second);
  CHECK(name_state(rig, 0, "m") != "absent");
  REQUIRE_OK(seal(client, *second));
  CHECK(eventually([&] { return rig.medium.pieces() == 1; }));  // the old one is gone everywhere
}

TEST_CASE("another key is refused with a line on both sides, and does not get in") {
  Rig rig(2);
  REQUIRE_OK(rig.client(0).verb("init"));
  Invitation real = *parse_token(rig.invite());
  real.key.bytes[0] ^= std::byte{1};
  const auto joined = rig.client(1).verb("join", {to_token(real)});
  REQUIRE_FALSE(joined.ok());
  CHECK(joined.error().message.find("key") != std::string::npos);
  CHECK(joined.error().message.find('\n') == std::string::npos);
  CHECK(rig.alive(0) == 1);
  CHECK(pool_of(rig, 1, "state") == "none");
}

TEST_CASE("nobody there to join is told, not waited for") {
  Rig rig(1);
  Invitation nowhere{"127.0.0.1:1", PoolKey::make()};
  const auto joined = rig.client(0).verb("join", {to_token(nowhere)});
  REQUIRE_FALSE(joined.ok());
  CHECK(joined.error().code == VP_UNREACHABLE);
}

TEST_CASE("the coordinator dies: names stay, changes stop, and a majority may promote another") {
  Rig rig(3);
  rig.make_pool();
  REQUIRE_OK(put(rig, 1, "kept"));
  CHECK(eventually([&] { return name_state(rig, 2, "kept") == "sealed"; }));
  rig.stop(0);
  CHECK(eventually([&] { return pool_of(rig, 1, "coordinator").empty(); }));
  CHECK(name_state(rig, 1, "kept") == "sealed");
  const auto refused = rig.client(1).create("new", kPageBytes, "local");
  REQUIRE_FALSE(refused.ok());
  const auto promoted = rig.client(1).verb("promote");
  REQUIRE_OK(promoted);
  CHECK(eventually([&] { return pool_of(rig, 2, "coordinator") == "n1"; }));
  CHECK(eventually([&] { return put(rig, 2, "new").ok(); }));
  CHECK(eventually([&] { return name_state(rig, 1, "new") == "sealed"; }));
  // The old coordinator comes back as a member and learns what it missed.
  REQUIRE_OK(rig.start(0));
  CHECK(eventually([&] { return name_state(rig, 0, "new") == "sealed"; }));
  CHECK(pool_of(rig, 0, "coordinator") == "n1");
}

TEST_CASE("without a majority promote is refused; forced, it goes on alone") {
  Rig rig(2);
  rig.make_pool();
  rig.stop(0);
  CHECK(eventually([&] { return pool_of(rig, 1, "coordinator").empty(); }));
  TestClient client = rig.client(1);
  CHECK_FALSE(client.verb("promote").ok());
  const auto forced = client.verb("promote", {}, R"({"force":true})");
  REQUIRE_OK(forced);
  CHECK(eventually([&] { return put(rig, 1, "alone").ok(); }));
}

TEST_CASE("records and pieces outlive a restart of everybody") {
  Rig rig(2);
  rig.make_pool();
  REQUIRE_OK(put(rig, 0, "stays"));
  const std::size_t pieces = rig.medium.pieces();
  for (std::size_t i = 0; i < 2; ++i) rig.stop(i);
  for (std::size_t i = 0; i < 2; ++i) REQUIRE_OK(rig.start(i));
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(eventually([&] { return name_state(rig, i, "stays") == "sealed"; }));
    CHECK(eventually([&] { return rig.alive(i) == 2; }));
  }
  CHECK(rig.medium.pieces() == pieces);
  CHECK(eventually([&] { return put(rig, 1, "more").ok(); }));
}

TEST_CASE("a program that dies between create and seal leaves nothing") {
  Rig rig(2);
  rig.make_pool();
  {
    TestClient client = rig.client(1);
    REQUIRE_OK(client.create("half", 2 * kPageBytes));
    CHECK(rig.medium.pieces() > 0);
  }
  CHECK(eventually([&] { return rig.medium.pieces() == 0; }));
  CHECK(eventually([&] { return name_state(rig, 0, "half") == "absent"; }));
  CHECK(rig.medium.clients_gone > 0);
  REQUIRE_OK(put(rig, 0, "half"));  // the name is free again
}

TEST_CASE("a daemon that dies between create and seal leaves nothing either") {
  Rig rig(2);
  rig.make_pool();
  TestClient client = rig.client(1);
  REQUIRE_OK(client.create("half", 2 * kPageBytes));
  rig.stop(1);
  REQUIRE_OK(rig.start(1));
  CHECK(eventually([&] { return name_state(rig, 0, "half") == "absent" && rig.medium.pieces() == 0; }));
}

TEST_CASE("a full pool says so and keeps nothing of the attempt") {
  Rig rig(2);
  rig.make_pool();
  const auto created = rig.client(0).create("big", 4ull << 30);
  REQUIRE_FALSE(created.ok());
  CHECK(created.error().code == VP_NO_SPACE);
  CHECK(rig.medium.pieces() == 0);
  CHECK(name_state(rig, 0, "big") == "absent");
}

TEST_CASE("only its creator's program may seal a segment, and bad names are refused") {
  Rig rig(1);
  rig.make_pool();
  TestClient one = rig.client(0), other = rig.client(0);
  const auto id = one.create("mine", kPageBytes);
  REQUIRE_OK(id);
  CHECK(seal(other, *id).error().code == VP_DENIED);
  CHECK(one.create("../etc", kPageBytes).error().code == VP_INVALID);
  CHECK(one.create("none", 0).error().code == VP_INVALID);
  CHECK(one.create("where", kPageBytes, "elsewhere").error().code == VP_INVALID);
  CHECK(seal(one, *id).ok());
}

TEST_CASE("a node leaves the pool and comes back as a new one") {
  Rig rig(2);
  rig.make_pool();
  REQUIRE_OK(rig.client(1).verb("leave"));
  CHECK(eventually([&] { return pool_of(rig, 1, "state") == "none"; }));
  CHECK(eventually([&] { return rig.alive(0) == 1; }));
  const auto again = rig.client(1).verb("join", {rig.invite()});
  REQUIRE_OK(again);
  CHECK(again->at("member").to_number<int>() == 3);
}

TEST_CASE("the status board can be read without asking the daemon") {
  Rig rig(1);
  rig.make_pool();
  const std::string board = read_text(wire::board_path(rig.config(0).socket_path));
  std::vector<std::uint64_t> words(wire::kBoardBytes / 8);
  REQUIRE(board.size() == wire::kBoardBytes);
  CHECK(eventually([&] {
    const std::string text = read_text(wire::board_path(rig.config(0).socket_path));
    std::memcpy(words.data(), text.data(), text.size());
    const auto read = wire::read_board(std::as_bytes(std::span(words)));
    return read && boost::json::parse(read->json).at("pool").at("state").as_string() == "member";
  }));
}
