// Daemons of one test in a directory of their own, and a program that talks to one of them.
#pragma once

#include <doctest/doctest.h>

#include <boost/json/object.hpp>
#include <memory>
#include <string>
#include <vector>

#include "control_fake_plane.h"
#include "service/daemon.h"

// Says why a Result is none.
#define REQUIRE_OK(expression)                                                     \
  do {                                                                             \
    const auto& required_ = (expression);                                          \
    REQUIRE_MESSAGE(required_.ok(), (required_ ? "" : required_.error().message)); \
  } while (false)

namespace vrampool::service {

// A directory below the system's temporary one; gone with its contents at the end.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// An attached program.
class TestClient {
 public:
  explicit TestClient(const std::string& socket);
  // The answer, or the error that a Done carries.
  Result<LocalBody> call(LocalBody request);
  template <class T>
  Result<LocalBody> ask(T message) {
    return call(local_body(std::move(message)));
  }
  // An operator's verb; the document, or the line of text under "message".
  Result<boost::json::object> verb(const std::string& verb, std::vector<std::string> arguments = {},
                                   const std::string& json = {});
  const wire::AttachedT& attached() const { return attached_; }
  Result<SegmentId> create(const std::string& name, std::uint64_t bytes, const std::string& placement = "spread");
  Result<boost::json::object> run_job(LocalBody request);

 private:
  Result<LocalBody> receive();
  UniqueFd fd_;
  wire::AttachedT attached_;
  std::uint64_t next_call_ = 1;
};

class Rig {
 public:
  explicit Rig(std::size_t daemons, std::int64_t detection_ms = 1000);
  ~Rig();
  Config config(std::size_t i) const;
  Status start(std::size_t i);  // again after stop(): same directories, same port
  void stop(std::size_t i) { daemons_[i].reset(); }
  Daemon& daemon(std::size_t i) { return *daemons_[i]; }
  TestClient client(std::size_t i) { return TestClient(configs_[i].socket_path); }
  // All started; the first made the pool, the others joined, everybody sees everybody alive.
  void make_pool();
  std::string invite(std::size_t i = 0);
  std::size_t alive(std::size_t i);  // as node i sees it
  Medium medium;
  TempDir dir;

 private:
  std::vector<Config> configs_;
  std::vector<std::unique_ptr<Daemon>> daemons_;
};

// Polls until `condition` holds; false after `seconds`.
bool eventually(const std::function<bool()>& condition, int seconds = 20);
std::string text_at(const boost::json::object& o, const char* key);
void write_text(const std::string& path, std::string_view text);
std::string read_text(const std::string& path);
// A safetensors file with tensors "a" (bytes of `seed`) and "b".
std::string safetensors_of(unsigned seed, std::size_t bytes_a, std::size_t bytes_b);

}  // namespace vrampool::service
