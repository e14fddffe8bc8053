// Linux: a tmpfs of our own, and what the mount table says.
#include <errno.h>
#include <sys/mount.h>

#include <sstream>

#include "base/text.h"
#include "platform/linux/mounts.h"
#include "platform/posix/object_names.h"
#include "platform/posix/small_file.h"
#include "platform/shared_object.h"

namespace vrampool::platform {

namespace {
bool holds_path(const std::string& point, const std::string& path) {
  return point == "/" || path == point || (path.starts_with(point) && path[point.size()] == '/');
}
}  // namespace

Mount mount_of(const std::string& path) {
  std::istringstream lines(read_small_file("/proc/self/mounts"));
  std::string line;
  Mount best;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string source;
    Mount m;
    words >> source >> m.point >> m.type >> m.options;
    if (holds_path(m.point, path) && m.point.size() >= best.point.size()) best = m;
  }
  return best;
}

std::string mount_option(const std::string& path, std::string_view option) {
  std::istringstream options(mount_of(path).options);
  std::string one;
  while (std::getline(options, one, ','))
    if (one.size() > option.size() && one.starts_with(option) && one[option.size()] == '=')
      return one.substr(option.size() + 1);
  return {};
}

Status mount_memory_filesystem(const std::string& directory, std::uint64_t bytes) {
  VP_CHECK(make_directory(directory));
  const Mount there = mount_of(directory);
  const bool ours = there.point == directory && there.type == "tmpfs";
  const unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC | (ours ? MS_REMOUNT : 0);
  // A kernel without huge shmem pages refuses the option; it then has nothing to forbid.
  const std::string plain = fmt::format("size={},mode=0700", bytes);
  for (const std::string& data : {plain + ",huge=never", plain})
    if (::mount("vrampool", directory.c_str(), "tmpfs", flags, data.c_str()) == 0) return {};
  if (errno == EPERM)
    return error(VP_DENIED, "mounting a tmpfs on {} needs root; run vrampoold --mount as root or use /dev/shm",
                 directory);
  return error_errno(errno, fmt::format("mounting a tmpfs of {} on {}", format_bytes(bytes), directory));
}

Status unmount_memory_filesystem(const std::string& directory) {
  if (::umount2(directory.c_str(), UMOUNT_NOFOLLOW) != 0) return error_errno(errno, "unmounting " + directory);
  return {};
}

}  // namespace vrampool::platform
