// Linux: memfds sealed against any change of size.
#include "platform/posix/unnamed_object.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/posix/object_names.h"
#include "platform/shared_object.h"

namespace vrampool::platform {

namespace {
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;
}

Result<Unnamed> make_unnamed(const char* label, std::uint64_t bytes) {
  UniqueFd fd(::memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return error_errno(errno, "creating an unnamed shared object");
  // A memfd is 0777 at birth.
  if (::fchmod(fd.get(), 0600) != 0 || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0)
    return error_errno(errno, "giving an unnamed shared object its size");
  return Unnamed{std::move(fd), UniqueFd()};
}

Status check_unnamed(int fd, std::uint64_t bytes) {
  struct stat s {};
  const int seals = ::fcntl(fd, F_GET_SEALS);
  const bool good =
      ::fstat(fd, &s) == 0 && s.st_size == static_cast<off_t>(bytes) && seals >= 0 && (seals & kSeals) == kSeals;
  if (!good) return error(VP_INVALID, "the other side sent no sealed object of {} bytes", bytes);
  return {};
}

}  // namespace vrampool::platform
