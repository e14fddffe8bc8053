// Linux: reserving and punching parts of a tmpfs file, and read-only descriptors through /proc.
#include "platform/shared_object.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/limits.h"
#include "base/text.h"
#include "platform/machine.h"

namespace vrampool::platform {

namespace {

// fallocate is interrupted by signals and by memory pressure; it takes up where it stopped.
int fallocate_all(int fd, int mode, std::uint64_t offset, std::uint64_t bytes) {
  for (;;) {
    if (::fallocate(fd, mode, static_cast<off_t>(offset), static_cast<off_t>(bytes)) == 0) return 0;
    if (errno != EINTR) return errno;
  }
}

}  // namespace

Result<UniqueFd> SharedObject::read_only_descriptor() const {
  const std::string link = fmt::format("/proc/self/fd/{}", fd_.get());
  UniqueFd fd(::open(link.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return error_errno(errno, "opening " + name_ + " read-only");
  return fd;
}

Status SharedObject::reserve(std::uint64_t offset, std::uint64_t bytes) {
  VP_ASSERT(offset <= bytes_ && bytes <= bytes_ - offset);
  if (bytes == 0) return {};
  const int rc = fallocate_all(fd_.get(), FALLOC_FL_KEEP_SIZE, offset, bytes);
  if (rc == 0) return {};
  if (rc == ENOSPC || rc == ENOMEM)
    return error(
        VP_NO_SPACE,
        "no room for {} in {}: the memory file system or the machine is full; lower the donation or remove segments",
        format_bytes(bytes), name_);
  return error_errno(rc, "reserving room in " + name_);
}

Status SharedObject::release(std::uint64_t offset, std::uint64_t bytes) {
  VP_ASSERT(offset <= bytes_ && bytes <= bytes_ - offset);
  VP_ASSERT(offset % release_granule_bytes() == 0 &&
            (bytes % release_granule_bytes() == 0 || offset + bytes == bytes_));
  if (bytes == 0) return {};
  const int rc = fallocate_all(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, bytes);
  if (rc != 0) return error_errno(rc, "giving back a part of " + name_);
  return {};
}

std::size_t SharedObject::release_granule_bytes() { return std::max(kPageBytes, page_bytes()); }

std::uint64_t SharedObject::allocated_bytes() const {
  struct stat s {};
  return ::fstat(fd_.get(), &s) == 0 ? static_cast<std::uint64_t>(s.st_blocks) * 512 : 0;
}

}  // namespace vrampool::platform
