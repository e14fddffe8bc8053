// macOS: no reserve call, no partial release; read-only descriptors by opening the name again.
#include "platform/shared_object.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/text.h"
#include "platform/pressure.h"

namespace vrampool::platform {

// Rights belong to the open file and /dev/fd only duplicates it: a read-only one comes from opening the name, done at
// birth.
Result<UniqueFd> SharedObject::read_only_descriptor() const {
  if (!read_only_)
    return error(VP_UNSUPPORTED, "{} was received from elsewhere and cannot be passed on read-only", name_);
  UniqueFd copy(::fcntl(read_only_.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy) return error_errno(errno, "duplicating the descriptor of " + name_);
  return copy;
}

// Memory is taken when it is touched; the compressor and swap stand behind it. What can be done is to stop before the
// system suffers.
Status SharedObject::reserve(std::uint64_t offset, std::uint64_t bytes) {
  VP_ASSERT(offset <= bytes_ && bytes <= bytes_ - offset);
  const Pressure p = memory_pressure();
  if (p.level == PressureLevel::normal) return {};
  return error(VP_NO_SPACE,
               "no room for {} in {}: this Mac is short of memory, so the pool counts as full; lower the donation or "
               "close programs",
               format_bytes(bytes), name_);
}

// MADV_FREE_REUSABLE on shared objects is not documented to give pages back; whole objects are, by removal.
Status SharedObject::release(std::uint64_t, std::uint64_t) {
  return error(VP_UNSUPPORTED, "macOS gives back shared memory only by whole objects; {} stays until it is removed",
               name_);
}

std::size_t SharedObject::release_granule_bytes() { return 0; }

std::uint64_t SharedObject::allocated_bytes() const { return bytes_; }

}  // namespace vrampool::platform
