// What the SDK's tests share: a fake daemon at a private path, a session, and patience with a deadline.
#pragma once

#include <doctest/doctest.h>
#include <stdlib.h>
#include <unistd.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fake_daemon.h"
#include "platform/clock.h"
#include "vrampool/vrampool.h"

namespace vrampool::client::testing {

class TempDirectory {
 public:
  TempDirectory() {
    char pattern[] = "/tmp/vpclient-XXXXXX";
    path_ = ::mkdtemp(pattern);
  }
  ~TempDirectory() {
    ::unlink((path_ + "/s").c_str());
    ::rmdir(path_.c_str());
  }
  std::string socket() const { return path_ + "/s"; }

 private:
  std::string path_;
};

// True as soon as `condition` holds; false after 10 s.
inline bool soon(const std::function<bool()>& condition) {
  const Instant until = platform::now() + Duration::seconds(10);
  while (!condition()) {
    if (platform::now() > until) return false;
    ::usleep(1000);
  }
  return true;
}

struct Fixture {
  FakePool pool;
  TempDirectory directory;
  std::optional<FakeDaemon> daemon;
  vp_session session{};

  Fixture() { start(); }
  ~Fixture() {
    if (session.id != 0) vp_disconnect(session);
    daemon.reset();
  }
  void start() { daemon.emplace(pool, directory.socket()); }
  void kill() { daemon.reset(); }

  void connect(std::int32_t call_deadline_ms = 0, std::int32_t fault_deadline_ms = 0) {
    const std::string path = directory.socket();
    auto o = VP_INIT(vp_connect_options);
    o.socket_path = path.c_str();
    o.program = "test";
    o.call_deadline_ms = call_deadline_ms;
    o.fault_deadline_ms = fault_deadline_ms;
    REQUIRE(vp_connect(&o, &session) == VP_OK);
  }
  vp_segment open(const char* name) {
    vp_segment s{};
    REQUIRE(vp_open(session, name, &s) == VP_OK);
    return s;
  }
  bool connected() const {
    auto info = VP_INIT(vp_session_info);
    return vp_session_status(session, &info) == VP_OK && info.connected != 0;
  }
  std::uint64_t reconnects() const {
    auto info = VP_INIT(vp_session_info);
    vp_session_status(session, &info);
    return info.reconnects;
  }
};

inline std::uint64_t wrong_bytes(const void* at, std::uint64_t bytes, std::uint64_t offset) {
  std::uint64_t wrong = 0;
  const auto* b = static_cast<const std::byte*>(at);
  for (std::uint64_t i = 0; i < bytes; ++i) wrong += b[i] != FakePool::byte_at(offset + i) ? 1 : 0;
  return wrong;
}

inline wire::TensorT tensor(const std::string& name, std::uint64_t offset, std::uint64_t bytes) {
  wire::TensorT t;
  t.name = name;
  t.dtype = wire::Dtype::bf16;
  t.type_name = "BF16";
  t.shape = {bytes / 2};
  t.offset = offset;
  t.bytes = bytes;
  return t;
}

// Runs `body` once per fault source that this machine has.
inline void for_each_source(const std::function<void()>& body) {
  for (const char* source : {"userfaultfd", "posix"}) {
    CAPTURE(source);
    ::setenv("VRAMPOOL_FAULTS", source, 1);
    body();
  }
  ::unsetenv("VRAMPOOL_FAULTS");
}

}  // namespace vrampool::client::testing
