// Checks by mode bits, primary group only: narrower than the kernel's, never wider.
#include "service/file_rights.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

namespace vrampool::service {
namespace {

constexpr std::size_t kDirectoryEntriesMax = 65536;
enum Right : unsigned { kRead = 4, kWrite = 2, kSearch = 1 };

bool allowed(const struct stat& info, const FileRights& rights, unsigned wanted) {
  if (rights.unlimited) return true;
  const unsigned shift = info.st_uid == rights.uid ? 6 : info.st_gid == rights.gid ? 3 : 0;
  return ((info.st_mode >> shift) & wanted) == wanted;
}

Result<std::string> real_path(const std::string& path) {
  if (path.empty() || path.front() != '/') return error(VP_INVALID, "\"{}\" is no absolute path", path);
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), std::free);
  if (!real) return error_errno(errno, path);
  return std::string(real.get());
}

Status check_way(const std::string& real, const FileRights& rights) {
  for (std::size_t cut = 0; cut != std::string::npos; cut = real.find('/', cut + 1)) {
    const std::string directory = cut == 0 ? "/" : real.substr(0, cut);
    struct stat info {};
    if (::stat(directory.c_str(), &info) != 0) return error_errno(errno, directory);
    if (!allowed(info, rights, kSearch)) return error(VP_DENIED, "{}: you may not enter {}", real, directory);
  }
  return {};
}

std::int64_t mtime_ns(const struct stat& info) {
#ifdef __APPLE__
  return info.st_mtimespec.tv_sec * 1'000'000'000 + info.st_mtimespec.tv_nsec;
#else
  return info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec;
#endif
}

}  // namespace

Result<InputFile> open_input(const std::string& path, const FileRights& rights) {
  VP_TRY(real, real_path(path));
  VP_CHECK(check_way(real, rights));
  InputFile file{UniqueFd(::open(real.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)), real, 0, 0};
  if (!file.fd) return error_errno(errno, path);
  struct stat info {};
  if (::fstat(file.fd.get(), &info) != 0) return error_errno(errno, path);
  if (!S_ISREG(info.st_mode)) return error(VP_INVALID, "{}: is no regular file", path);
  if (!allowed(info, rights, kRead)) return error(VP_DENIED, "{}: you may not read it", path);
  file.bytes = static_cast<std::uint64_t>(info.st_size);
  file.mtime_ns = mtime_ns(info);
  return file;
}

Result<bool> is_directory(const std::string& path, const FileRights& rights) {
  VP_TRY(real, real_path(path));
  VP_CHECK(check_way(real, rights));
  struct stat info {};
  if (::stat(real.c_str(), &info) != 0) return error_errno(errno, path);
  return S_ISDIR(info.st_mode);
}

Status check_output_directory(const std::string& path, const FileRights& rights) {
  VP_TRY(real, real_path(path));
  VP_CHECK(check_way(real, rights));
  struct stat info {};
  if (::stat(real.c_str(), &info) != 0) return error_errno(errno, path);
  if (!S_ISDIR(info.st_mode)) return error(VP_INVALID, "{}: is no directory", path);
  if (!allowed(info, rights, kWrite | kSearch)) return error(VP_DENIED, "{}: you may not write there", path);
  return {};
}

Result<std::vector<std::string>> list_directory(const std::string& path, const FileRights& rights) {
  VP_TRY(real, real_path(path));
  struct stat info {};
  if (::stat(real.c_str(), &info) != 0) return error_errno(errno, path);
  if (!allowed(info, rights, kRead | kSearch)) return error(VP_DENIED, "{}: you may not list it", path);
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(real.c_str()), ::closedir);
  if (!directory) return error_errno(errno, path);
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(directory.get())) {
    if (names.size() >= kDirectoryEntriesMax)
      return error(VP_INVALID, "{}: more than {} entries", path, kDirectoryEntriesMax);
    names.emplace_back(entry->d_name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

Status read_fully(const InputFile& file, std::uint64_t offset, std::span<std::byte> into) {
  while (!into.empty()) {
    const ssize_t n = ::pread(file.fd.get(), into.data(), into.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return error_errno(errno, file.path);
    if (n == 0) return error(VP_CORRUPT, "{}: became shorter while it was read", file.path);
    into = into.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return {};
}

}  // namespace vrampool::service
