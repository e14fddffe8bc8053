#include "cli/demo/spawn.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "cli/job.h"

#ifdef __linux__
#include <sys/prctl.h>
#else
#include <mach-o/dyld.h>
#endif

namespace vrampool::cli {
namespace {

// In the child: async-signal-safe calls only.
[[noreturn]] void become(char* const* argv, const char* log, pid_t parent, bool outlives) {
  ::setpgid(0, 0);
#ifdef __linux__
  if (!outlives) ::prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  if (!outlives && ::getppid() != parent) ::_exit(127);
  const int out = ::open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const int in = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::dup2(in, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(out, STDERR_FILENO);
  ::execv(argv[0], argv);
  ::_exit(127);
}

int exit_of(int status) {
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  fmt::print(stderr, "vrampool: the demo's client died of signal {} ({})\n", WTERMSIG(status),
             ::strsignal(WTERMSIG(status)));
  return kFailed;
}

}  // namespace

Result<pid_t> spawn_beside(const std::string& program, const std::vector<std::string>& arguments,
                           const std::string& log, bool outlives) {
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) become(argv.data(), log.c_str(), parent, outlives);
  if (pid < 0) return error_errno(errno, "starting " + program);
  return pid;
}

Result<int> run_guarded(const std::function<int()>& body) {
  std::fflush(nullptr);
  CatchInterrupt guard;
  const pid_t pid = ::fork();
  if (pid < 0) return error_errno(errno, "starting the demo's client");
  if (pid == 0) {
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGTERM, SIG_DFL);
    const int code = body();
    std::fflush(nullptr);
    ::_exit(code);
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    if (CatchInterrupt::happened()) ::kill(pid, SIGKILL);
  }
  return CatchInterrupt::happened() ? 130 : exit_of(status);
}

std::string own_executable() {
#ifdef __APPLE__
  std::uint32_t size = 0;
  ::_NSGetExecutablePath(nullptr, &size);
  std::string path(size, '\0');
  ::_NSGetExecutablePath(path.data(), &size);
  return path.c_str();
#else
  return {};
#endif
}

}  // namespace vrampool::cli
