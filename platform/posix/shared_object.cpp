// What a SharedObject does alike everywhere: ownership and its alias mapping.
#include "platform/shared_object.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "platform/posix/memory_range.h"
#include "platform/posix/object_names.h"
#include "platform/posix/unnamed_object.h"

namespace vrampool::platform {

SharedObject::SharedObject(SharedObject&& o) noexcept
    : fd_(std::move(o.fd_)),
      read_only_(std::move(o.read_only_)),
      name_(std::move(o.name_)),
      bytes_(o.bytes_),
      memory_(std::exchange(o.memory_, nullptr)) {}

SharedObject& SharedObject::operator=(SharedObject&& o) noexcept {
  if (this == &o) return *this;
  unmap();
  fd_ = std::move(o.fd_);
  read_only_ = std::move(o.read_only_);
  name_ = std::move(o.name_);
  bytes_ = o.bytes_;
  memory_ = std::exchange(o.memory_, nullptr);
  return *this;
}

SharedObject::~SharedObject() { unmap(); }

void SharedObject::unmap() { release_range(std::exchange(memory_, nullptr), bytes_); }

Status SharedObject::map(MapUse use) {
  VP_ASSERT(fd_ && memory_ == nullptr);
  VP_TRY(at, reserve_range(bytes_, range_alignment(bytes_)));
  void* got = ::mmap(at, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd_.get(), 0);
  if (got == MAP_FAILED) {
    const int why = errno;
    release_range(at, bytes_);
    return error_errno(why, "mapping the shared object " + name_);
  }
  memory_ = at;
  if (use == MapUse::cache) forbid_huge_pages(memory_, bytes_);
  return keep_private(memory_, bytes_);
}

Result<UniqueFd> SharedObject::read_write_descriptor() const {
  UniqueFd copy(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy) return error_errno(errno, "duplicating the descriptor of " + name_);
  return copy;
}

Result<SharedObject> create_unnamed_object(const char* label, std::uint64_t bytes) {
  VP_CHECK(check_object_bytes(bytes));
  VP_TRY(made, make_unnamed(label, bytes));
  return SharedObject(std::move(made.read_write), label, bytes, std::move(made.read_only));
}

Result<SharedObject> adopt_unnamed_object(UniqueFd fd, std::uint64_t bytes) {
  VP_CHECK(check_object_bytes(bytes));
  VP_CHECK(check_unnamed(fd.get(), bytes));
  return SharedObject(std::move(fd), "received", bytes);
}

}  // namespace vrampool::platform
