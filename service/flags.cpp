// vrampoold's flags through CLI11; the only file here that sees it.
#include "service/flags.h"

#include <unistd.h>

#include <CLI/CLI.hpp>

#ifndef VP_VERSION
#define VP_VERSION "0"
#endif

namespace vrampool::service {
namespace {

#ifdef __APPLE__
constexpr const char* kConfigFile = "/Library/Application Support/Vrampool/vrampoold.toml";
#else
constexpr const char* kConfigFile = "/etc/vrampool/vrampoold.toml";
#endif

struct Overrides {
  std::string config_file, name, listen, advertise, state_dir, run_dir, socket, memory_dir, capacity, log_level;
  int control_port = -1, data_port = -1;
  bool check = false, cleanup = false, version = false, overcommit = false, foreground = false, posix_faults = false;
};

void describe(CLI::App& app, Overrides& o) {
  app.add_option("--config", o.config_file,
                 fmt::format("configuration file (default: {} when it exists)", kConfigFile));
  app.add_option("--name", o.name, "name of this node (default: the host's name)");
  app.add_option("--listen", o.listen, "address to listen on for other members");
  app.add_option("--advertise", o.advertise, "address under which other members reach this node");
  app.add_option("--control-port", o.control_port, "TCP port for control (0: any)")->check(CLI::Range(0, 65535));
  app.add_option("--data-port", o.data_port, "TCP port for data (0: any)")->check(CLI::Range(0, 65535));
  app.add_option("--state-dir", o.state_dir, "durable state: identity, key, registry");
  app.add_option("--run-dir", o.run_dir, "socket, pid file and status board");
  app.add_option("--socket", o.socket, "path of the local socket");
  app.add_option("--memory-dir", o.memory_dir, "tmpfs directory for shared objects");
  app.add_option("--capacity", o.capacity, "donated memory, such as 64GiB or 60%");
  app.add_flag("--overcommit", o.overcommit, "allow a capacity above this machine's RAM");
  app.add_flag("--posix-faults", o.posix_faults, "do not use userfaultfd");
  app.add_option("--log-level", o.log_level, "debug, info, warn or error")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}));
  app.add_flag("--foreground", o.foreground, "stay in the foreground (always so; accepted for scripts)");
  app.add_flag("--check-config", o.check, "check the configuration and exit");
  app.add_flag("--cleanup", o.cleanup, "remove every shared object this node left behind, and exit");
  app.add_flag("--version", o.version, "print the version and exit");
}

void put(std::string& to, const std::string& from) {
  if (!from.empty()) to = from;
}

void override_config(Config& c, const Overrides& o) {
  put(c.node_name, o.name);
  put(c.listen, o.listen);
  put(c.advertise, o.advertise);
  put(c.state_dir, o.state_dir);
  put(c.run_dir, o.run_dir);
  put(c.socket_path, o.socket);
  put(c.memory_dir, o.memory_dir);
  put(c.capacity_text, o.capacity);
  put(c.log_level, o.log_level);
  if (o.control_port >= 0) c.control_port = static_cast<std::uint16_t>(o.control_port);
  if (o.data_port >= 0) c.data_port = static_cast<std::uint16_t>(o.data_port);
  if (o.overcommit) c.overcommit = true;
  if (o.posix_faults) c.fault_source = "posix";
}

Result<Config> load(const Overrides& o) {
  if (!o.config_file.empty()) return read_config(o.config_file);
  if (::access(kConfigFile, F_OK) == 0) return read_config(kConfigFile);
  return Config{};
}

Flags leave(std::string text, int code) {
  Flags f;
  f.command = Command::print_and_exit;
  f.text = std::move(text);
  f.exit_code = code;
  return f;
}

}  // namespace

Result<Flags> parse_flags(int argc, const char* const* argv) {
  CLI::App app("vrampoold: donates this machine's memory to a pool and serves it to programs here");
  Overrides o;
  describe(app, o);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return leave(app.help(), 0);
  } catch (const CLI::ParseError& failure) {
    return leave(fmt::format("vrampoold: {} (see --help)\n", failure.what()), 2);
  }
  if (o.version) return leave("vrampoold " VP_VERSION "\n", 0);
  Flags flags;
  VP_TRY(config, load(o));
  flags.config = std::move(config);
  override_config(flags.config, o);
  VP_CHECK(complete_config(flags.config));
  flags.command = o.check ? Command::check_config : o.cleanup ? Command::cleanup : Command::serve;
  return flags;
}

}  // namespace vrampool::service
