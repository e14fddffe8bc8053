// Reserving and releasing address space.
#include "platform/posix/memory_range.h"

#include <errno.h>
#include <sys/mman.h>

#include "base/text.h"
#include "platform/fault_source.h"
#include "platform/shared_object.h"

namespace vrampool::platform {

namespace {
#ifdef MAP_NORESERVE
constexpr int kReserveFlags = MAP_PRIVATE | MAP_ANON | MAP_NORESERVE;
#else
constexpr int kReserveFlags = MAP_PRIVATE | MAP_ANON;
#endif
}  // namespace

Result<std::byte*> reserve_range(std::uint64_t bytes, std::size_t align) {
  const std::uint64_t padded = bytes + align;
  void* got = padded < bytes ? MAP_FAILED : ::mmap(nullptr, padded, PROT_NONE, kReserveFlags, -1, 0);
  if (got == MAP_FAILED)
    return error(VP_NO_SPACE, "no room for {} of addresses in this process; raise its address-space limit (ulimit -v)",
                 format_bytes(bytes));
  auto* raw = static_cast<std::byte*>(got);
  const auto skip = (align - reinterpret_cast<std::uintptr_t>(raw) % align) % align;
  if (skip > 0) ::munmap(raw, skip);
  if (align > skip) ::munmap(raw + skip + bytes, align - skip);
  return raw + skip;
}

void release_range(std::byte* at, std::uint64_t bytes) {
  if (at != nullptr) ::munmap(at, bytes);
}

std::size_t range_alignment(std::uint64_t bytes) {
  return bytes >= kMapAlignBytes ? kMapAlignBytes : fault_granule_bytes();
}

}  // namespace vrampool::platform
