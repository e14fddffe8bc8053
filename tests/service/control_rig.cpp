// The rig.
#include "control_rig.h"

#include <unistd.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "platform/clock.h"
#include "wire/codec.h"

namespace vrampool::service {
namespace {

const Duration kPatience = Duration::seconds(40);

}  // namespace

TempDir::TempDir() {
  std::string pattern = std::filesystem::temp_directory_path().string() + "/vp-control-XXXXXX";
  REQUIRE(::mkdtemp(pattern.data()) != nullptr);
  path_ = pattern;
}
TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

TestClient::TestClient(const std::string& socket) {
  auto fd = platform::connect_unix(socket);
  REQUIRE_OK(fd);
  fd_ = std::move(*fd);
  wire::AttachT attach;
  attach.version_min = attach.version_max = 1;
  attach.program = "a test";
  auto answer = ask(std::move(attach));
  REQUIRE_OK(answer);
  REQUIRE(answer->AsAttached());
  attached_ = *answer->AsAttached();
}

Result<LocalBody> TestClient::call(LocalBody request) {
  wire::LocalMessageT message;
  message.call = next_call_++;
  message.body = std::move(request);
  VP_CHECK(platform::send_all(fd_.get(), wire::frame(wire::encode<wire::LocalMessage>(message)), {}, kPatience));
  return receive();
}

Result<LocalBody> TestClient::receive() {
  platform::DescriptorList descriptors;
  std::array<std::byte, 4> prefix{};
  VP_CHECK(platform::receive_all(fd_.get(), prefix, descriptors, kPatience));
  VP_TRY(length, wire::frame_length(prefix));
  std::vector<std::byte> body(length);
  VP_CHECK(platform::receive_all(fd_.get(), body, descriptors, kPatience));
  VP_TRY(message, wire::decode<wire::LocalMessage>(body, "answer"));
  if (const auto* done = message.body.AsDone(); done && done->status != VP_OK)
    return Error{static_cast<vp_status>(done->status), done->message};
  return std::move(message.body);
}

Result<boost::json::object> TestClient::verb(const std::string& verb, std::vector<std::string> arguments,
                                             const std::string& json) {
  wire::AdminT admin;
  admin.verb = verb;
  admin.arguments = std::move(arguments);
  admin.json = json;
  VP_TRY(body, ask(std::move(admin)));
  if (const auto* line = body.AsDone()) return boost::json::object{{"message", line->message}};
  REQUIRE(body.AsJsonReply());
  return boost::json::parse(body.AsJsonReply()->json).as_object();
}

Result<SegmentId> TestClient::create(const std::string& name, std::uint64_t bytes, const std::string& placement) {
  wire::CreateSegmentT ask_create;
  ask_create.name = name;
  ask_create.bytes = bytes;
  ask_create.placement = placement;
  VP_TRY(body, ask(std::move(ask_create)));
  REQUIRE(body.AsCreated());
  return body.AsCreated()->record->id;
}

Result<boost::json::object> TestClient::run_job(LocalBody request) {
  VP_TRY(started, call(std::move(request)));
  REQUIRE(started.AsJobStarted());
  wire::JobQueryT query;
  query.job = started.AsJobStarted()->job;
  query.wait_ms = 30'000;
  VP_TRY(ended, ask(std::move(query)));
  REQUIRE(ended.AsJsonReply());
  return boost::json::parse(ended.AsJsonReply()->json).as_object();
}

Rig::Rig(std::size_t daemons, std::int64_t detection_ms) {
  for (std::size_t i = 0; i < daemons; ++i) {
    const std::string base = dir.path() + "/n" + std::to_string(i);
    Config c;
    c.node_name = "n" + std::to_string(i);
    c.listen = "127.0.0.1";
    c.control_port = 0;
    c.data_port = 0;
    c.state_dir = base + "/state";
    c.run_dir = base + "/run";
    c.memory_dir = base + "/memory";
    c.socket_path = base + "/run/d.sock";
    c.capacity_text = "256MiB";
    c.detection_ms = detection_ms;
    configs_.push_back(c);
    daemons_.emplace_back();
    const Status started = start(i);
    REQUIRE_OK(started);
  }
}

Rig::~Rig() { daemons_.clear(); }

Config Rig::config(std::size_t i) const { return configs_[i]; }

Status Rig::start(std::size_t i) {
  VP_TRY(daemon, Daemon::start(configs_[i], medium.starter()));
  configs_[i].control_port = daemon->control_port();
  daemons_[i] = std::move(daemon);
  return {};
}

std::string Rig::invite(std::size_t i) {
  auto doc = client(i).verb("invite");
  REQUIRE_OK(doc);
  return text_at(*doc, "token");
}

std::size_t Rig::alive(std::size_t i) {
  auto doc = client(i).verb("nodes");
  if (!doc) return 0;
  std::size_t n = 0;
  for (const auto& node : doc->at("nodes").as_array()) n += node.at("state").as_string() == "alive";
  return n;
}

void Rig::make_pool() {
  auto made = client(0).verb("init");
  REQUIRE_OK(made);
  const std::string token = invite();
  for (std::size_t i = 1; i < daemons_.size(); ++i) {
    auto joined = client(i).verb("join", {token});
    REQUIRE_OK(joined);
  }
  for (std::size_t i = 0; i < daemons_.size(); ++i) REQUIRE(eventually([&] { return alive(i) == daemons_.size(); }));
}

bool eventually(const std::function<bool()>& condition, int seconds) {
  const Instant until = platform::now() + Duration::seconds(seconds);
  while (!condition()) {
    if (platform::now() > until) return false;
    ::usleep(20'000);
  }
  return true;
}

std::string text_at(const boost::json::object& o, const char* key) {
  const auto* v = o.if_contains(key);
  return v && v->is_string() ? std::string(v->get_string()) : "";
}

void write_text(const std::string& path, std::string_view text) { std::ofstream(path, std::ios::binary) << text; }

std::string read_text(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

std::string safetensors_of(unsigned seed, std::size_t bytes_a, std::size_t bytes_b) {
  const std::string header = fmt::format(
      R"({{"a":{{"dtype":"U8","shape":[{}],"data_offsets":[0,{}]}},"b":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}}}})",
      bytes_a, bytes_a, bytes_b, bytes_a, bytes_a + bytes_b);
  std::string file(8, '\0');
  for (int i = 0; i < 8; ++i) file[static_cast<std::size_t>(i)] = static_cast<char>(header.size() >> (8 * i));
  file += header;
  for (std::size_t i = 0; i < bytes_a + bytes_b; ++i) {
    seed = seed * 1664525u + 1013904223u;
    file.push_back(static_cast<char>(seed >> 24));
  }
  return file;
}

}  // namespace vrampool::service
