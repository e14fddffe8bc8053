// Checks that are alike on every system: descriptors, pressure, ports, peers.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>

#include "base/text.h"
#include "base/unique_fd.h"
#include "cli/checks/checks.h"
#include "platform/pressure.h"

namespace vrampool::cli {
namespace {

constexpr int kPeerWaitMs = 1000;
// One or two descriptors for each object and view.
constexpr rlim_t kDescriptorsWanted = 4096;

Finding descriptors() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_max >= kDescriptorsWanted) return good("descriptors", fmt::format("up to {}", limit.rlim_max));
  return problem("descriptors", fmt::format("at most {} open files", limit.rlim_max),
                 fmt::format("raise the hard limit to {} or more (LimitNOFILE= in the unit)", kDescriptorsWanted));
}

Finding pressure() {
  const platform::Pressure p = platform::memory_pressure();
  const std::string found = fmt::format("{} available", format_bytes(p.available_bytes));
  if (p.level == platform::PressureLevel::normal) return good("memory", found);
  return problem("memory", found + "; the system is short of it", "donate less: vrampool donate SIZE");
}

int connect_error(int fd, const addrinfo& to) {
  if (::connect(fd, to.ai_addr, to.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd waiting{fd, POLLOUT, 0};
  if (::poll(&waiting, 1, kPeerWaitMs) <= 0) return ETIMEDOUT;
  int failed = 0;
  socklen_t size = sizeof failed;
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &size);
  return failed;
}

std::string peer_fix(int failed) {
#ifdef __APPLE__
  if (failed == EHOSTUNREACH) {
    return "macOS keeps programs that are not started by launchd as a daemon off the local network: run vrampoold as a "
           "LaunchDaemon, or allow it in System Settings, Privacy, Local Network";
  }
#endif
  if (failed == ECONNREFUSED) return "is vrampoold running there? vrampool status on that machine says more";
  return "check cable, address and firewall; the control and data ports (7420, 7421) must be open between the nodes";
}

}  // namespace

std::string small_file(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  std::string out = text.str();
  while (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

Findings common_findings() { return {descriptors(), pressure()}; }

Finding port_finding(const std::string& what, std::uint16_t port) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM, 0));
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) {
    return good(what, fmt::format("port {} is free", port));
  }
  return problem(what, fmt::format("port {}: {}", port, std::strerror(errno)),
                 "end the program that has it, or set another port in vrampoold.toml");
}

Finding peer_finding(const std::string& name, const std::string& address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos) return note("peer " + name, "no address known", "is its daemon running?");
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int failed = ::getaddrinfo(host.c_str(), address.c_str() + colon + 1, &hints, &found); failed != 0) {
    return problem("peer " + name, fmt::format("{}: {}", address, ::gai_strerror(failed)),
                   "set node.advertise on that machine to an address that this one can reach");
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> guard(found, ::freeaddrinfo);
  const UniqueFd fd(::socket(found->ai_family, SOCK_STREAM, 0));
  ::fcntl(fd.get(), F_SETFL, O_NONBLOCK);
  const int failed = connect_error(fd.get(), *found);
  if (failed == 0) return good("peer " + name, address + " answers");
  return problem("peer " + name, fmt::format("{}: {}", address, std::strerror(failed)), peer_fix(failed));
}

}  // namespace vrampool::cli
