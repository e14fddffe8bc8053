// macOS: shm objects whose name goes as soon as they are open. Their size is fixed: ftruncate works once.
#include "platform/posix/unnamed_object.h"

#include <libproc.h>
#include <sys/mman.h>
#include <sys/proc_info.h>
#include <unistd.h>

#include "platform/macos/shm_ledger.h"
#include "platform/shared_object.h"

namespace vrampool::platform {

Result<Unnamed> make_unnamed(const char*, std::uint64_t bytes) {
  const std::string name = new_shm_name();
  VP_TRY(made, make_shm(name, bytes));
  ::shm_unlink(name.c_str());
  return Unnamed{std::move(made.read_write), std::move(made.read_only)};
}

// A regular file could shrink under our mapping; only shared memory answers this question.
Status check_unnamed(int fd, std::uint64_t bytes) {
  pshm_fdinfo info{};
  const int n = ::proc_pidfdinfo(::getpid(), fd, PROC_PIDFDPSHMINFO, &info, sizeof info);
  const bool good =
      n >= static_cast<int>(sizeof info) && static_cast<std::uint64_t>(info.pshminfo.pshm_stat.vst_size) >= bytes;
  if (!good) return error(VP_INVALID, "the other side sent no shared-memory object of {} bytes", bytes);
  return {};
}

}  // namespace vrampool::platform
