// macOS: shared memory needs no file system of its own.
#include "platform/shared_object.h"

namespace vrampool::platform {

Status mount_memory_filesystem(const std::string& directory, std::uint64_t) {
  return error(VP_UNSUPPORTED, "macOS keeps pool memory in POSIX shared memory; nothing is to be mounted on {}",
               directory);
}

Status unmount_memory_filesystem(const std::string& directory) { return mount_memory_filesystem(directory, 0); }

}  // namespace vrampool::platform
