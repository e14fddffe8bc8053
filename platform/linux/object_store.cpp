// Linux: objects are files of mode 0600 in a directory on tmpfs.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "platform/linux/mounts.h"
#include "platform/posix/object_names.h"
#include "platform/shared_object.h"

namespace vrampool::platform {

namespace {

Status check_filesystem(const std::string& directory) {
  struct statfs s {};
  if (::statfs(directory.c_str(), &s) != 0) return error_errno(errno, "looking at " + directory);
  if (static_cast<unsigned long>(s.f_type) != TMPFS_MAGIC)
    return error(VP_UNSUPPORTED, "{} is not on tmpfs; choose a directory below /dev/shm or mount a tmpfs there",
                 directory);
  const std::string huge = mount_option(directory, "huge");
  // A hole of 16 KiB in a 2 MiB folio that anything else refers to frees nothing and reads as zero without a fault.
  if (huge == "always" || huge == "within_size")
    return error(VP_UNSUPPORTED, "{} is on a tmpfs mounted with huge={}; remount it with huge=never", directory, huge);
  return {};
}

std::string path_of(const std::string& directory, std::string_view name) {
  return fmt::format("{}/{}", directory, name);
}

std::uint64_t allocated_in(const std::string& path) {
  struct stat s {};
  return ::lstat(path.c_str(), &s) == 0 ? static_cast<std::uint64_t>(s.st_blocks) * 512 : 0;
}

}  // namespace

Result<ObjectStore> ObjectStore::open(const ObjectStoreOptions& options) {
  VP_CHECK(make_directory(options.directory));
  if (options.require_memory_filesystem) VP_CHECK(check_filesystem(options.directory));
  return ObjectStore(options.directory);
}

Result<SharedObject> ObjectStore::create(std::string_view name, std::uint64_t bytes) {
  VP_CHECK(check_object_name(name));
  VP_CHECK(check_object_bytes(bytes));
  const std::string path = path_of(directory_, name);
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd)
    return errno == EEXIST ? error(VP_EXISTS, "the shared object {} is there already", path)
                           : error_errno(errno, "creating " + path);
  // The umask must not widen or narrow it: another uid with a read-only descriptor must not open it for writing.
  if (::fchmod(fd.get(), 0600) != 0 || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    const int why = errno;
    ::unlink(path.c_str());
    return error_errno(why, "giving " + path + " its size");
  }
  return SharedObject(std::move(fd), std::string(name), bytes);
}

Result<SharedObject> ObjectStore::open_existing(std::string_view name) {
  VP_CHECK(check_object_name(name));
  const std::string path = path_of(directory_, name);
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!fd)
    return errno == ENOENT ? error(VP_NOT_FOUND, "there is no shared object {}", path)
                           : error_errno(errno, "opening " + path);
  struct stat s {};
  if (::fstat(fd.get(), &s) != 0 || !S_ISREG(s.st_mode) || s.st_size <= 0)
    return error(VP_CORRUPT, "{} is no shared object of ours", path);
  return SharedObject(std::move(fd), std::string(name), static_cast<std::uint64_t>(s.st_size));
}

Result<std::vector<std::string>> ObjectStore::list() const {
  std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(directory_.c_str()), ::closedir);
  if (!dir) return error_errno(errno, "listing " + directory_);
  std::vector<std::string> names;
  while (const dirent* e = ::readdir(dir.get()))
    if (check_object_name(e->d_name) && e->d_type == DT_REG) names.emplace_back(e->d_name);
  std::sort(names.begin(), names.end());
  return names;
}

Status ObjectStore::remove(std::string_view name) {
  VP_CHECK(check_object_name(name));
  const std::string path = path_of(directory_, name);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return error_errno(errno, "removing " + path);
  return {};
}

std::uint64_t ObjectStore::allocated_bytes() const {
  const auto names = list();
  std::uint64_t sum = 0;
  if (names)
    for (const auto& name : *names) sum += allocated_in(path_of(directory_, name));
  return sum;
}

std::uint64_t ObjectStore::free_bytes() const {
  struct statfs s {};
  if (::statfs(directory_.c_str(), &s) != 0) return 0;
  return s.f_blocks == 0 ? UINT64_MAX : static_cast<std::uint64_t>(s.f_bavail) * static_cast<std::uint64_t>(s.f_bsize);
}

Result<std::size_t> ObjectStore::cleanup() {
  VP_TRY(names, list());
  for (const auto& name : names) VP_CHECK(remove(name));
  return names.size();
}

}  // namespace vrampool::platform
