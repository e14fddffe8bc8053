// Process housekeeping that is alike everywhere: descriptor limit, SIGPIPE, liveness of a pid.
#include "platform/process.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>

namespace vrampool::platform {

Result<std::uint64_t> raise_descriptor_limit(std::uint64_t wanted) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return error_errno(errno, "reading the limit of open descriptors");
  if (limit.rlim_cur >= wanted) return static_cast<std::uint64_t>(limit.rlim_cur);
  limit.rlim_cur = std::min<rlim_t>(wanted, limit.rlim_max);
  // macOS reports an unlimited hard limit and yet refuses more than OPEN_MAX (10240), since 10.5 (setrlimit(2)).
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) {
    limit.rlim_cur = std::min<rlim_t>(10240, limit.rlim_max);
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return error_errno(errno, "raising the limit of open descriptors");
  }
  return static_cast<std::uint64_t>(limit.rlim_cur);
}

void block_sigpipe() { ::signal(SIGPIPE, SIG_IGN); }

bool process_exists(int pid) { return pid > 0 && (::kill(pid, 0) == 0 || errno == EPERM); }

}  // namespace vrampool::platform
