// Defaults that depend on the machine and its user, and the checks that need to know them.
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>

#include "base/text.h"
#include "platform/machine.h"
#include "platform/unix_socket.h"
#include "service/config.h"

namespace vrampool::service {
namespace {

#ifdef __APPLE__
constexpr const char* kRootState = "/Library/Application Support/Vrampool";
constexpr const char* kRootRun = "/var/run/vrampool";
constexpr const char* kUserState = "/Library/Application Support/Vrampool";  // below the home directory
#else
constexpr const char* kRootState = "/var/lib/vrampool";
constexpr const char* kRootRun = "/run/vrampool";
constexpr const char* kUserState = "/.local/state/vrampool";
#endif

std::string home_directory() {
  if (const char* home = std::getenv("HOME"); home && *home == '/') return home;
  const passwd* entry = ::getpwuid(::geteuid());
  return entry && entry->pw_dir ? entry->pw_dir : "/tmp";
}

std::string default_run_dir() {
  if (::geteuid() == 0) return kRootRun;
  if (const char* xdg = std::getenv("XDG_RUNTIME_DIR"); xdg && *xdg == '/') return std::string(xdg) + "/vrampool";
  return home_directory() + "/.vrampool";
}

std::string default_memory_dir(const Config& c) {
#ifdef __APPLE__
  return c.state_dir + "/objects";  // the ledger of shared-memory names
#else
  return "/dev/shm/vrampool-" + std::to_string(::geteuid()) + "/" + c.node_name;
#endif
}

Result<std::uint64_t> capacity_from(const std::string& text, std::uint64_t ram) {
  if (text.empty() || text.back() != '%') return parse_bytes(text);
  unsigned percent = 0;
  const char* end = text.data() + text.size() - 1;
  const auto parsed = std::from_chars(text.data(), end, percent);
  if (parsed.ec != std::errc() || parsed.ptr != end || percent == 0 || percent > 1000)
    return error(VP_INVALID, "memory.capacity \"{}\" is no share of RAM such as \"60%\"", text);
  return ram / 100 * percent;
}

Status complete_capacity(Config& c) {
  const std::uint64_t ram = platform::ram_bytes();
  VP_TRY(bytes, capacity_from(c.capacity_text, ram));
  c.capacity_bytes = bytes / kPageBytes * kPageBytes;
  if (c.capacity_bytes > ram && !c.overcommit)
    return error(VP_INVALID, "memory.capacity {} is more than this machine's RAM of {}: lower it, or say --overcommit",
                 format_bytes(c.capacity_bytes), format_bytes(ram));
  return {};
}

Status check_node_name(const std::string& name) {
  if (name.empty() || name.size() > 63) return error(VP_INVALID, "node.name must have 1 to 63 characters");
  for (const char ch : name)
    if (!(std::isalnum(static_cast<unsigned char>(ch)) || ch == '-' || ch == '_' || ch == '.'))
      return error(VP_INVALID, "node.name \"{}\" may hold letters, digits, '-', '_' and '.' only", name);
  if (name.front() == '.') return error(VP_INVALID, "node.name \"{}\" may not begin with '.'", name);
  return {};
}

}  // namespace

std::string default_socket_path() { return default_run_dir() + "/vrampoold.sock"; }

Status complete_config(Config& c) {
  if (c.node_name.empty()) c.node_name = platform::machine_text().host_name;
  VP_CHECK(check_node_name(c.node_name));
  if (c.state_dir.empty()) c.state_dir = ::geteuid() == 0 ? kRootState : home_directory() + kUserState;
  if (c.run_dir.empty()) c.run_dir = default_run_dir();
  if (c.socket_path.empty()) c.socket_path = c.run_dir + "/vrampoold.sock";
  if (c.memory_dir.empty()) c.memory_dir = default_memory_dir(c);
  VP_CHECK(platform::check_socket_path(c.socket_path));
  if (c.control_port != 0 && c.control_port == c.data_port)
    return error(VP_INVALID, "node.control_port and node.data_port are both {}: they must differ", c.control_port);
  if (c.fault_deadline_ms <= c.detection_ms)
    return error(VP_INVALID, "timing.fault_deadline_ms ({}) must be larger than timing.detection_ms ({})",
                 c.fault_deadline_ms, c.detection_ms);
  return complete_capacity(c);
}

}  // namespace vrampool::service
