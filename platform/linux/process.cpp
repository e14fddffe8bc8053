// Linux: OOM rank, thread names, pidfd.
#include "platform/process.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <string>

namespace vrampool::platform {

Status set_oom_score_adjust(int score) {
  const UniqueFd fd(::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  if (!fd) return error_errno(errno, "opening /proc/self/oom_score_adj");
  const std::string text = std::to_string(score);
  if (::write(fd.get(), text.data(), text.size()) < 0)
    return error_errno(errno, "setting the OOM score to " + text + " (lowering it needs CAP_SYS_RESOURCE)");
  return {};
}

void name_this_thread(const char* name) {
  char cut[16];
  std::snprintf(cut, sizeof cut, "%s", name);
  ::pthread_setname_np(::pthread_self(), cut);
}

Result<UniqueFd> watch_process_end(int pid) {
  UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!fd) return errno == ESRCH ? error(VP_NOT_FOUND, "no process {}", pid) : error_errno(errno, "watching a process");
  return fd;
}

}  // namespace vrampool::platform
