// What doctor looks at, as facts with a verdict and a fix. No printing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vrampool::cli {

enum class Verdict { good, note, problem };

struct Finding {
  std::string what;  // "fault source", "shared memory"
  Verdict verdict = Verdict::good;
  std::string found;
  std::string fix;  // empty when good
};
using Findings = std::vector<Finding>;

inline Finding good(std::string what, std::string found) {
  return {std::move(what), Verdict::good, std::move(found), {}};
}
inline Finding note(std::string what, std::string found, std::string fix) {
  return {std::move(what), Verdict::note, std::move(found), std::move(fix)};
}
inline Finding problem(std::string what, std::string found, std::string fix) {
  return {std::move(what), Verdict::problem, std::move(found), std::move(fix)};
}

// Kernel, fault source, shared memory, limits, huge pages, clock, sleep, firewall: this machine, without a daemon.
// linux.cpp and macos.cpp.
Findings system_findings(const std::string& memory_dir);
// Alike on both: descriptors, memory pressure.
Findings common_findings();
// Is this TCP port free here? For a machine where no daemon runs.
Finding port_finding(const std::string& what, std::uint16_t port);
// Can a peer be reached from here? "host:port". Blocking: at most a second.
Finding peer_finding(const std::string& name, const std::string& address);

// The whole of a small file, without the last newline; empty if it cannot be read.
std::string small_file(const std::string& path);

}  // namespace vrampool::cli
