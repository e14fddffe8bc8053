// Where a daemon may listen, and what to say when none does.
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "client/link.h"

#ifdef __linux__
#include <cerrno>
#endif

namespace vrampool::client {

namespace {

constexpr const char* kSystemSocket = "/run/vrampool/vrampoold.sock";

const char* environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

std::string join(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& w : words) out += (out.empty() ? "" : ", ") + w;
  return out;
}

const char* how_to_start() {
#ifdef __APPLE__
  return "start it with `sudo launchctl kickstart system/io.vrampool.vrampoold`, or `vrampoold` in a terminal";
#else
  return "start it with `systemctl start vrampoold`, or `vrampoold` in a terminal";
#endif
}

}  // namespace

std::vector<std::string> socket_candidates(const std::string& chosen) {
  if (!chosen.empty()) return {chosen};
  if (const char* path = environment("VRAMPOOL_SOCKET")) return {path};
  std::vector<std::string> places{kSystemSocket};
  if (const char* dir = environment("XDG_RUNTIME_DIR")) places.push_back(std::string(dir) + "/vrampool/vrampoold.sock");
  if (const char* home = environment("HOME")) places.push_back(std::string(home) + "/.vrampool/vrampoold.sock");
  return places;
}

Result<UniqueFd> connect_daemon(const std::vector<std::string>& candidates, std::string* where) {
  for (const std::string& path : candidates) {
    auto fd = platform::connect_unix(path);
    if (fd && where != nullptr) *where = path;
    if (fd) return fd;
    if (fd.error().code != VP_UNREACHABLE && fd.error().code != VP_NOT_FOUND) return fd;
  }
  return error(VP_UNREACHABLE, "no daemon answers on this machine (looked at {}): {}", join(candidates),
               how_to_start());
}

std::string own_program_name() {
#if defined(__APPLE__)
  return ::getprogname();
#elif defined(__GLIBC__)
  return program_invocation_short_name;
#else
  return "a program";
#endif
}

}  // namespace vrampool::client
