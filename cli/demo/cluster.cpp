#include "cli/demo/cluster.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/unique_fd.h"
#include "cli/checks/checks.h"
#include "cli/daemon.h"
#include "cli/demo/spawn.h"
#include "platform/clock.h"

namespace vrampool::cli {
namespace {

namespace fs = std::filesystem;
constexpr Duration kStartDeadline = Duration::seconds(20);
constexpr Duration kStopDeadline = Duration::seconds(10);
constexpr auto kLook = std::chrono::milliseconds(20);

Result<std::string> fresh_directory(const std::string& pattern) {
  std::string path = pattern;
  if (::mkdtemp(path.data()) == nullptr) return error_errno(errno, pattern);
  return path;
}

std::string last_line(const std::string& log) {
  const std::string text = small_file(log);
  return text.substr(text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1);
}

// A port that nobody has now. The roster names it, so a daemon cannot just take any.
std::uint16_t free_port() {
  const UniqueFd probe(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(probe.get(), generic, size) != 0 || ::getsockname(probe.get(), generic, &size) != 0) return 0;
  return ntohs(address.sin_port);
}

std::vector<std::string> arguments(const ClusterNode& node, const ClusterOptions& o) {
  std::vector<std::string> out;
  const auto put = [&](const char* flag, std::string value) { out.insert(out.end(), {flag, std::move(value)}); };
  put("--config", "/dev/null");
  put("--name", node.name);
  put("--listen", "127.0.0.1");
  put("--advertise", "127.0.0.1");
  put("--control-port", std::to_string(free_port()));
  put("--data-port", std::to_string(free_port()));
  put("--state-dir", node.dir + "/state");
  put("--run-dir", node.dir);
  put("--socket", node.socket);
  put("--memory-dir", node.memory_dir);
  put("--capacity", std::to_string(o.capacity_bytes));
  put("--log-level", "info");
  if (o.overcommit) out.push_back("--overcommit");
  return out;
}

bool answers(const ClusterNode& node) {
  Invocation in;
  in.socket = node.socket;
  return daemon(in).ok();
}

bool ended(pid_t pid) { return ::waitpid(pid, nullptr, WNOHANG) == pid; }

Status wait_until_up(ClusterNode& node) {
  const Instant deadline = platform::now() + kStartDeadline;
  while (!answers(node)) {
    if (ended(node.pid)) {
      node.pid = -1;
      return error(VP_FAILED, "{} did not start: {}", node.name, last_line(node.dir + "/log"));
    }
    if (platform::now() > deadline)
      return error(VP_TIMEOUT, "{} does not answer; its log ends: {}", node.name, last_line(node.dir + "/log"));
    std::this_thread::sleep_for(kLook);
  }
  return {};
}

// SIGTERM first: a daemon leaves in order. Then there is no more asking.
void end_process(pid_t pid) {
  ::kill(pid, SIGTERM);
  const Instant deadline = platform::now() + kStopDeadline;
  while (!ended(pid)) {
    if (platform::now() > deadline) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
      return;
    }
    std::this_thread::sleep_for(kLook);
  }
}

}  // namespace

Result<std::string> find_daemon() {
  std::error_code failed;
#ifdef __linux__
  const fs::path own = fs::read_symlink("/proc/self/exe", failed);
#else
  const fs::path own = fs::path(own_executable());
#endif
  for (const fs::path& place : {own.parent_path() / "vrampoold", own.parent_path() / "../sbin/vrampoold",
                                own.parent_path() / "../libexec/vrampoold"}) {
    if (::access(place.c_str(), X_OK) == 0) return place.lexically_normal().string();
  }
  return error(VP_NOT_FOUND, "no vrampoold beside {}: build or install it first", own.string());
}

Status Cluster::make_directories(unsigned count) {
  const char* temp = std::getenv("TMPDIR");
  VP_TRY(dir, fresh_directory(std::string(temp != nullptr && *temp == '/' ? temp : "/tmp") + "/vrampool-demo-XXXXXX"));
  dir_ = dir;
  // On macOS objects have names in the kernel; the directory only holds the ledger.
  const std::string shm = fs::is_directory("/dev/shm") ? "/dev/shm" : dir_;
  VP_TRY(memory, fresh_directory(shm + "/vrampool-demo-XXXXXX"));
  memory_dir_ = memory;
  for (unsigned i = 1; i <= count; ++i) {
    ClusterNode node;
    node.name = fmt::format("node{}", i);
    node.dir = fmt::format("{}/{}", dir_, node.name);
    node.memory_dir = fmt::format("{}/{}", memory_dir_, node.name);
    node.socket = node.dir + "/vrampoold.sock";
    std::error_code failed;
    fs::create_directories(node.dir, failed);
    if (failed) return error(VP_FAILED, "{}: {}", node.dir, failed.message());
    nodes_.push_back(std::move(node));
  }
  return {};
}

Status Cluster::start(const ClusterOptions& options) {
  VP_TRY(program, find_daemon());
  VP_CHECK(make_directories(options.nodes));
  for (ClusterNode& node : nodes_) {
    VP_TRY(pid, spawn_beside(program, arguments(node, options), node.dir + "/log", options.outlives));
    node.pid = pid;
  }
  for (ClusterNode& node : nodes_) VP_CHECK(wait_until_up(node));
  return {};
}

Status Cluster::form_pool() {
  Invocation in;
  in.socket = nodes_.front().socket;
  VP_CHECK(ask(in, "init"));
  std::string line;
  VP_TRY(invitation, ask(in, "invite", {}, {}, &line));
  const std::string token = text_of(invitation, "token", line);
  for (std::size_t i = 1; i < nodes_.size(); ++i) {
    in.socket = nodes_[i].socket;
    VP_CHECK(ask(in, "join", {token}));
  }
  return {};
}

void Cluster::stop() {
  for (const ClusterNode& node : nodes_) {
    if (node.pid > 0) ::kill(node.pid, SIGTERM);
  }
  for (ClusterNode& node : nodes_) {
    if (node.pid > 0) end_process(std::exchange(node.pid, -1));
  }
  std::error_code ignored;
  if (!memory_dir_.empty()) fs::remove_all(std::exchange(memory_dir_, {}), ignored);
  if (!dir_.empty()) fs::remove_all(std::exchange(dir_, {}), ignored);
  nodes_.clear();
}

std::vector<std::string> Cluster::last_words() const {
  std::vector<std::string> out;
  for (const ClusterNode& node : nodes_) out.push_back(fmt::format("{}: {}", node.name, last_line(node.dir + "/log")));
  return out;
}

void Cluster::keep() {
  nodes_.clear();
  dir_.clear();
  memory_dir_.clear();
}

}  // namespace vrampool::cli
