// Connecting, opening, asking: what holds and what is refused.
#include <cstring>

#include "client/admin.h"
#include "fixture.h"

using namespace vrampool;
using namespace vrampool::client;
using namespace vrampool::client::testing;

TEST_CASE("without a daemon the error says where it was looked for and how to start one") {
  const TempDirectory directory;
  const std::string path = directory.socket();
  auto o = VP_INIT(vp_connect_options);
  o.socket_path = path.c_str();
  vp_session s{};
  CHECK(vp_connect(&o, &s) == VP_UNREACHABLE);
  CHECK(s.id == 0);
  CHECK(std::strstr(vp_last_error(), path.c_str()) != nullptr);
  CHECK(std::strstr(vp_last_error(), "start") != nullptr);
}

TEST_CASE("the socket is looked for at the place given, then in the environment, then in the usual places") {
  ::setenv("VRAMPOOL_SOCKET", "/a/b", 1);
  CHECK(socket_candidates("/x") == std::vector<std::string>{"/x"});
  CHECK(socket_candidates("") == std::vector<std::string>{"/a/b"});
  ::unsetenv("VRAMPOOL_SOCKET");
  ::setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
  const auto usual = socket_candidates("");
  REQUIRE(usual.size() >= 2);
  CHECK(usual[0] == "/run/vrampool/vrampoold.sock");
  CHECK(usual[1] == "/run/user/7/vrampool/vrampoold.sock");
  ::unsetenv("XDG_RUNTIME_DIR");
}

TEST_CASE_FIXTURE(Fixture, "a segment opens by name with its tensors") {
  pool.add("models/a", 100000, {tensor("w1", 0, 4096), tensor("w2", 16384, 65536)});
  connect();
  const vp_segment s = open("models/a");
  auto info = VP_INIT(vp_segment_info);
  REQUIRE(vp_segment_status(s, &info) == VP_OK);
  CHECK(info.bytes == 114688);
  CHECK(info.tensors == 2);
  CHECK(info.state == VP_SEALED);
  CHECK(std::string(info.name) == "models/a");
  auto t = VP_INIT(vp_tensor);
  REQUIRE(vp_tensor_find(s, "w2", &t) == VP_OK);
  CHECK(t.offset == 16384);
  CHECK(t.bytes == 65536);
  CHECK(t.dtype == VP_BF16);
  CHECK(t.rank == 1);
  CHECK(std::string(t.type_name) == "BF16");
  REQUIRE(vp_tensor_at(s, 0, &t) == VP_OK);
  CHECK(std::string(t.name) == "w1");
  CHECK(vp_tensor_at(s, 2, &t) == VP_INVALID);
  CHECK(vp_tensor_find(s, "w3", &t) == VP_NOT_FOUND);
  CHECK(std::strstr(vp_last_error(), "w3") != nullptr);
}

TEST_CASE_FIXTURE(Fixture, "missing arguments and wrong handles are errors, never crashes") {
  pool.add("a", 16384);
  connect();
  vp_segment s{};
  CHECK(vp_open(session, "nothing", &s) == VP_NOT_FOUND);
  CHECK(vp_open(session, nullptr, &s) == VP_INVALID);
  CHECK(vp_open(session, "", &s) == VP_INVALID);
  CHECK(vp_open(session, "a", nullptr) == VP_INVALID);
  CHECK(vp_open(vp_session{12345}, "a", &s) == VP_INVALID);
  s = open("a");
  char b[8];
  CHECK(vp_read(s, 0, nullptr, 8) == VP_INVALID);
  CHECK(vp_read(s, 16380, b, 8) == VP_INVALID);
  CHECK(vp_read(s, ~0ull, b, 8) == VP_INVALID);
  CHECK(vp_segment_status(s, nullptr) == VP_INVALID);
  vp_segment_info unsized{};
  CHECK(vp_segment_status(s, &unsized) == VP_INVALID);
  CHECK(vp_map(s, nullptr, nullptr, nullptr) == VP_INVALID);
  CHECK(vp_wait(vp_token{}, 0) == VP_INVALID);
  CHECK(vp_unmap(vp_view{99}) == VP_INVALID);
  CHECK(vp_close(s) == VP_OK);
  CHECK(vp_close(s) == VP_INVALID);
  CHECK(vp_read(s, 0, b, 8) == VP_INVALID);
  CHECK(vp_connect(nullptr, nullptr) == VP_INVALID);
}

TEST_CASE_FIXTURE(Fixture, "a segment that was removed answers stale, and a new one of that name needs a new handle") {
  pool.add("a", 16384);
  connect();
  const vp_segment old = open("a");
  REQUIRE(vp_remove(session, "a", 0) == VP_OK);
  pool.add("a", 16384);
  char b[8];
  CHECK(vp_read(old, 0, b, 8) == VP_STALE);
  vp_view v{};
  vp_range r{};
  CHECK(vp_map(old, nullptr, &v, &r) == VP_STALE);
  CHECK(vp_read(open("a"), 0, b, 8) == VP_OK);
}

TEST_CASE_FIXTURE(Fixture, "a daemon that says nothing runs into the call's deadline") {
  pool.add("a", 16384);
  connect(100);
  pool.silent = true;
  vp_segment s{};
  CHECK(vp_open(session, "a", &s) == VP_TIMEOUT);
  pool.silent = false;
  CHECK(vp_open(session, "a", &s) == VP_OK);
}

TEST_CASE_FIXTURE(Fixture, "disconnecting closes every handle of the session") {
  pool.add("a", 32768);
  connect();
  const vp_segment s = open("a");
  vp_view v{};
  vp_range r{};
  REQUIRE(vp_map(s, nullptr, &v, &r) == VP_OK);
  REQUIRE(vp_disconnect(session) == VP_OK);
  char b[8];
  CHECK(vp_read(s, 0, b, 8) == VP_INVALID);
  CHECK(vp_unmap(v) == VP_INVALID);
  CHECK(vp_disconnect(session) == VP_INVALID);
  session = {};
}

TEST_CASE_FIXTURE(Fixture, "the operator's connection sends any request and hands back its answer") {
  pool.add("a", 16384);
  AdminOptions o;
  o.socket_path = directory.socket();
  auto admin = Admin::connect(o);
  REQUIRE(admin.ok());
  CHECK(admin->attached().pool == "fake");
  CHECK(*admin->verb("status") == "{\"verb\":\"status\"}");
  wire::OpenSegmentT ask;
  ask.name = "a";
  auto opened = admin->ask<wire::OpenedT>(std::move(ask));
  REQUIRE(opened.ok());
  CHECK(opened->record->name == "a");
  wire::OpenSegmentT wrong;
  wrong.name = "b";
  CHECK(admin->ask<wire::OpenedT>(std::move(wrong)).error().code == VP_NOT_FOUND);
  wire::RemoveSegmentT remove;
  remove.name = "a";
  CHECK(admin->order(std::move(remove)).ok());
}

TEST_CASE("every status has a phrase of its own") {
  std::set<std::string> phrases;
  for (int s = VP_OK; s <= VP_UNKNOWN_OUTCOME; ++s) phrases.insert(vp_strstatus(static_cast<vp_status>(s)));
  CHECK(phrases.size() == VP_UNKNOWN_OUTCOME + 1);
  CHECK(std::string(vp_version()).find('.') != std::string::npos);
}
