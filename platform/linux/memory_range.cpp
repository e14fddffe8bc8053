// Linux: advice that keeps ranges out of children, dumps and huge folios.
#include "platform/posix/memory_range.h"

#include <errno.h>
#include <sys/mman.h>

#include "platform/posix/poison_page.h"

namespace vrampool::platform {

Status keep_private(std::byte* at, std::uint64_t bytes) {
  if (::madvise(at, bytes, MADV_DONTFORK) != 0) return error_errno(errno, "keeping a mapping from child processes");
  if (::madvise(at, bytes, MADV_DONTDUMP) != 0) return error_errno(errno, "keeping a mapping out of core dumps");
  return {};
}

// EINVAL on kernels built without huge pages: nothing to forbid.
void forbid_huge_pages(std::byte* at, std::uint64_t bytes) { ::madvise(at, bytes, MADV_NOHUGEPAGE); }

bool move_pages(std::byte* from, std::byte* to, std::uint64_t bytes) {
  return ::mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) != MAP_FAILED;
}

}  // namespace vrampool::platform
