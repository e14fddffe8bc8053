// Poisoned pages: filled elsewhere, then moved into place.
#include "platform/posix/poison_page.h"

#include <string.h>
#include <sys/mman.h>

#include "platform/posix/memory_range.h"

namespace vrampool::platform {

bool poison_pages(std::byte* at, std::uint64_t bytes, PageAccess access) {
  void* made = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
  if (made == MAP_FAILED) return false;
  ::memset(made, kPoisonByte, bytes);
  const int rights = access == PageAccess::write ? PROT_READ | PROT_WRITE : PROT_READ;
  if (::mprotect(made, bytes, rights) == 0 && keep_private(static_cast<std::byte*>(made), bytes) &&
      move_pages(static_cast<std::byte*>(made), at, bytes))
    return true;
  ::munmap(made, bytes);
  return false;
}

bool PoisonedRanges::add(std::uint64_t offset, std::uint64_t bytes) {
  const std::size_t n = count_.load(std::memory_order_relaxed);
  if (n == ranges_.size()) return false;
  ranges_[n] = {offset, offset + bytes};
  count_.store(n + 1, std::memory_order_release);
  return true;
}

bool PoisonedRanges::holds(std::uint64_t offset) const {
  const std::size_t n = count_.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < n; ++i)
    if (ranges_[i].from <= offset && offset < ranges_[i].to) return true;
  return false;
}

}  // namespace vrampool::platform
