#include "service/data/landing.h"

#include <errno.h>
#include <unistd.h>

#include <cstring>

namespace vrampool::service::data {
namespace {

bool is_full(int e) { return e == ENOSPC || e == ENOMEM || e == EDQUOT; }

Status land_by_copy(platform::SharedObject& object, std::uint64_t offset, std::span<const std::byte> bytes) {
  VP_CHECK(object.reserve(offset, bytes.size()));
  std::memcpy(object.memory().data() + offset, bytes.data(), bytes.size());
  return {};
}

}  // namespace

Status land(platform::SharedObject& object, std::uint64_t offset, std::span<const std::byte> bytes) {
  VP_ASSERT(offset <= object.bytes() && bytes.size() <= object.bytes() - offset);
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(object.fd(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n > 0) {
      offset += static_cast<std::uint64_t>(n);
      bytes = bytes.subspan(static_cast<std::size_t>(n));
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    if (n == 0 || is_full(errno))
      return error(VP_NO_SPACE, "no room in {}: the memory file system is full; lower the donation or remove segments",
                   object.name());
    // POSIX shared memory of macOS knows no write calls.
    return land_by_copy(object, offset, bytes);
  }
  return {};
}

Status blank(platform::SharedObject& object, std::uint64_t offset, std::uint64_t bytes) {
  if (platform::SharedObject::release_granule_bytes() != 0) return object.release(offset, bytes);
  std::memset(object.memory().data() + offset, 0, bytes);
  return {};
}

}  // namespace vrampool::service::data
