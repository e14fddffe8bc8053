// Configuration: what is refused, and that the line names file, line and key.
#include <doctest/doctest.h>

#include "platform/machine.h"
#include "service/config.h"

using namespace vrampool;
using service::parse_config;

namespace {

std::string refusal(std::string_view text) {
  const auto parsed = parse_config(text, "vrampoold.toml");
  return parsed ? "accepted" : parsed.error().message;
}

}  // namespace

TEST_CASE("a whole configuration is read") {
  const auto c = parse_config(R"(
[node]
name = "studio-1"
listen = "10.0.0.1"
control_port = 0
[paths]
state_dir = "/var/lib/x"
[memory]
capacity = "64GiB"
cache = "2GiB"
overcommit = true
[data]
security = "plain"
movers = 3
fault_source = "posix"
[timing]
detection_ms = 2000
[principals]
alice = "team-a"
[log]
level = "debug"
)",
                              "f.toml");
  REQUIRE(c.ok());
  CHECK(c->node_name == "studio-1");
  CHECK(c->control_port == 0);
  CHECK(c->cache_bytes == 2ull << 30);
  CHECK_FALSE(c->data_tls);
  CHECK(c->movers == 3);
  CHECK(c->detection_ms == 2000);
  CHECK(c->principals.at("alice") == "team-a");
}

TEST_CASE("malformed TOML is one line with file and line number") {
  const std::string line = refusal("[node]\nname = \"a\"\nlisten = = 3\n");
  CHECK(line.starts_with("vrampoold.toml:3: "));
  CHECK(line.find('\n') == std::string::npos);
}

TEST_CASE("an unknown key is refused by name, wherever it stands") {
  CHECK(refusal("[memory]\ncapasity = \"1GiB\"\n") == "vrampoold.toml:2: unknown key \"memory.capasity\"");
  CHECK(refusal("[memmory]\n") == "vrampoold.toml:1: unknown key \"memmory\"");
  CHECK(refusal("name = \"x\"\n") == "vrampoold.toml:1: unknown key \"name\"");
}

TEST_CASE("values of the wrong kind or out of range say what is wanted") {
  CHECK(refusal("[node]\ncontrol_port = 70000\n") ==
        "vrampoold.toml:2: node.control_port must be a whole number from 0 to 65535");
  CHECK(refusal("[node]\nname = 3\n") == "vrampoold.toml:2: node.name must be a string");
  CHECK(refusal("[data]\nsecurity = \"none\"\n") == "vrampoold.toml:2: data.security must be one of: tls, plain");
  CHECK(refusal("[memory]\ncache = \"much\"\n") == "vrampoold.toml:2: memory.cache must be a size such as \"64GiB\"");
  CHECK(refusal("node = 3\n") == "vrampoold.toml:1: must be a table: [node]");
}

TEST_CASE("more memory than the machine has needs overcommit") {
  service::Config c;
  c.capacity_text = std::to_string(platform::ram_bytes() * 2);
  CHECK_FALSE(service::complete_config(c).ok());
  c.overcommit = true;
  CHECK(service::complete_config(c).ok());
  c.capacity_text = "0%";
  CHECK_FALSE(service::complete_config(c).ok());
  c.capacity_text = "50%";
  REQUIRE(service::complete_config(c).ok());
  CHECK(c.capacity_bytes <= platform::ram_bytes() / 2 + kPageBytes);
  CHECK(c.capacity_bytes % kPageBytes == 0);
}

TEST_CASE("what cannot work on this machine is refused before anything starts") {
  service::Config c;
  c.node_name = "bad name";
  CHECK_FALSE(service::complete_config(c).ok());
  c.node_name = "good";
  c.control_port = c.data_port = 7;
  CHECK_FALSE(service::complete_config(c).ok());
  c.data_port = 8;
  c.socket_path = "/" + std::string(200, 'x');
  CHECK_FALSE(service::complete_config(c).ok());
  c.socket_path = "/tmp/s.sock";
  c.fault_deadline_ms = c.detection_ms;
  CHECK_FALSE(service::complete_config(c).ok());
}
