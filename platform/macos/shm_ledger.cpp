// The ledger's files.
#include "platform/macos/shm_ledger.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "platform/machine.h"
#include "platform/posix/object_names.h"
#include "platform/posix/small_file.h"

namespace vrampool::platform {

namespace {
constexpr std::string_view kPrefix = "/vp-";

bool write_all(int fd, const std::string& text) {
  return ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
}
}  // namespace

std::string new_shm_name() {
  const MachineId id = random_id();
  std::string name = fmt::format("{}{:016x}{:04x}", kPrefix, id.hi, id.lo & 0xffff);
  VP_ASSERT(name.size() <= kShmNameBytesMax);
  return name;
}

Status write_entry(const std::string& path, const LedgerEntry& entry) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd)
    return errno == EEXIST ? error(VP_EXISTS, "the shared object {} is there already", path)
                           : error_errno(errno, "creating " + path);
  // fsync is enough: after a power cut the objects are gone too.
  if (write_all(fd.get(), fmt::format("{} {}\n", entry.shm_name, entry.bytes)) && ::fsync(fd.get()) == 0) return {};
  const int why = errno;
  ::unlink(path.c_str());
  return error_errno(why, "writing the ledger entry " + path);
}

std::optional<LedgerEntry> read_entry(const std::string& path) {
  const std::string text = read_small_file(path.c_str());
  const auto space = text.find(' ');
  if (!text.starts_with(kPrefix) || space == std::string::npos || space > kShmNameBytesMax) return {};
  LedgerEntry entry{text.substr(0, space), 0};
  const auto parsed = std::from_chars(text.data() + space + 1, text.data() + text.size(), entry.bytes);
  if (parsed.ec != std::errc() || !check_object_bytes(entry.bytes)) return {};
  return entry;
}

Result<std::vector<std::string>> list_entries(const std::string& directory) {
  std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(directory.c_str()), ::closedir);
  if (!dir) return error_errno(errno, "listing " + directory);
  std::vector<std::string> names;
  while (const dirent* e = ::readdir(dir.get()))
    if (check_object_name(e->d_name) && e->d_type == DT_REG) names.emplace_back(e->d_name);
  std::sort(names.begin(), names.end());
  return names;
}

// shm_open is variadic here; both descriptors have FD_CLOEXEC set by the system.
ShmDescriptors open_shm(const std::string& shm_name) {
  ShmDescriptors d;
  d.read_write.reset(::shm_open(shm_name.c_str(), O_RDWR, 0600));
  if (d.read_write) d.read_only.reset(::shm_open(shm_name.c_str(), O_RDONLY, 0600));
  if (!d.read_only) d.read_write.reset();
  return d;
}

Result<ShmDescriptors> make_shm(const std::string& shm_name, std::uint64_t bytes) {
  const UniqueFd made(::shm_open(shm_name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600));
  if (!made) return error_errno(errno, "creating the shared object " + shm_name);
  ShmDescriptors d;
  if (::ftruncate(made.get(), static_cast<off_t>(bytes)) == 0) d = open_shm(shm_name);
  if (d.read_write) return d;
  const int why = errno;
  ::shm_unlink(shm_name.c_str());
  return error_errno(why, "giving the shared object " + shm_name + " its size");
}

}  // namespace vrampool::platform
