// What a person can set about vrampoold: one struct, read from TOML and flags, then completed from the machine.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/limits.h"
#include "base/result.h"

namespace vrampool::service {

// Ports 0 mean "any"; the ports in use stand on the status board.
struct Config {
  std::string source;     // the file it came from, for messages
  std::string node_name;  // default: the host's name
  std::string listen = "0.0.0.0";
  std::uint16_t control_port = 7420;
  std::uint16_t data_port = 7421;
  std::string advertise;  // how other members reach this node; default: the first address that is not loopback
  std::string state_dir;
  std::string run_dir;
  std::string socket_path;
  std::string memory_dir;
  std::string capacity_text = "60%";  // bytes or a share of RAM
  std::uint64_t capacity_bytes = 0;   // completed from capacity_text
  bool overcommit = false;
  std::uint64_t cache_bytes = 4ull << 30;
  bool data_tls = true;
  unsigned movers = 2;
  std::string fault_source = "auto";  // auto, userfaultfd, posix
  std::int64_t detection_ms = kDetectionMs;
  std::int64_t fault_deadline_ms = kFaultDeadlineMs;
  std::map<std::string, std::string> principals;  // login name -> principal
  std::string log_level = "info";
  std::string log_file;
};

// Pure. Errors: "<name>:<line>: ..." for malformed TOML, unknown keys and values out of range.
Result<Config> parse_config(std::string_view text, std::string name);
Result<Config> read_config(const std::string& path);
// Fills what is empty from the machine (uid, RAM, host name) and checks what cannot work here.
Status complete_config(Config&);
// The socket a client on this machine looks for when nobody says otherwise.
std::string default_socket_path();

}  // namespace vrampool::service
