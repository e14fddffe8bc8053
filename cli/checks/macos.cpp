// What doctor looks at on macOS.
#ifdef __APPLE__
#include <fmt/format.h>
#include <sys/sysctl.h>
#include <unistd.h>

#include <array>
#include <cstdio>

#include "base/text.h"
#include "cli/checks/checks.h"
#include "platform/fault_source.h"
#include "platform/machine.h"

namespace vrampool::cli {
namespace {

std::string output_of(const char* command) {
  std::FILE* pipe = ::popen(command, "r");
  if (pipe == nullptr) return {};
  std::string out;
  std::array<char, 512> part{};
  while (std::fgets(part.data(), part.size(), pipe) != nullptr) out += part.data();
  ::pclose(pipe);
  return out;
}

Finding fault_source() {
  const platform::FaultSourceProbe probe = platform::probe_fault_source();
  return good("fault source", fmt::format("{} on {}: {}", platform::to_text(probe.kind),
                                          platform::machine_text().kernel, probe.reason));
}

Finding sleep() {
  // "sleep 0" in pmset's answer: the machine does not go to sleep by itself.
  const std::string settings = output_of("/usr/bin/pmset -g 2>/dev/null");
  if (settings.find(" sleep                0") != std::string::npos) return good("sleep", "this Mac stays awake");
  return note("sleep", "this Mac may go to sleep, which takes it out of the pool", "sudo pmset -a sleep 0");
}

Finding firewall() {
  const std::string state = output_of("/usr/libexec/ApplicationFirewall/socketfilterfw --getglobalstate 2>/dev/null");
  if (state.find("enabled") == std::string::npos) return good("firewall", "the application firewall is off");
  return note(
      "firewall", "the application firewall is on",
      "sudo /usr/libexec/ApplicationFirewall/socketfilterfw --add $(which vrampoold) --unblockapp $(which vrampoold)");
}

Finding wired_limit() {
  std::uint64_t megabytes = 0;
  std::size_t size = sizeof megabytes;
  if (::sysctlbyname("iogpu.wired_limit_mb", &megabytes, &size, nullptr, 0) != 0 || megabytes == 0) {
    return good("gpu memory", "the system's own limit");
  }
  return note("gpu memory", fmt::format("iogpu.wired_limit_mb is {}", megabytes),
              "donate so little that both fit into RAM: vrampool donate SIZE");
}

}  // namespace

Findings system_findings(const std::string&) { return {fault_source(), wired_limit(), sleep(), firewall()}; }

}  // namespace vrampool::cli
#endif
