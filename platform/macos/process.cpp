// macOS: thread names, and a kqueue that watches the end of a process.
#include "platform/process.h"

#include <errno.h>
#include <pthread.h>
#include <sys/event.h>

#include <cstdio>

namespace vrampool::platform {

// There is no such rank; launchd's ProcessType and jetsam decide.
Status set_oom_score_adjust(int) { return {}; }

void name_this_thread(const char* name) {
  char cut[16];
  std::snprintf(cut, sizeof cut, "%s", name);
  ::pthread_setname_np(cut);
}

Result<UniqueFd> watch_process_end(int pid) {
  UniqueFd queue(::kqueue());
  if (!queue) return error_errno(errno, "watching a process");
  struct kevent change {};
  EV_SET(&change, static_cast<uintptr_t>(pid), EVFILT_PROC, EV_ADD, NOTE_EXIT, 0, nullptr);
  if (::kevent(queue.get(), &change, 1, nullptr, 0, nullptr) != 0)
    return errno == ESRCH ? error(VP_NOT_FOUND, "no process {}", pid) : error_errno(errno, "watching a process");
  return queue;
}

}  // namespace vrampool::platform
