// Durable small files.
#include "service/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/unique_fd.h"

namespace vrampool::service {

Result<std::string> read_file(const std::string& path, std::size_t max) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return error_errno(errno, path);
  std::string text(max + 1, '\0');
  std::size_t have = 0;
  while (have < text.size()) {
    const ssize_t n = ::read(fd.get(), text.data() + have, text.size() - have);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return error_errno(errno, path);
    if (n == 0) break;
    have += static_cast<std::size_t>(n);
  }
  if (have > max) return error(VP_CORRUPT, "{}: larger than {} bytes", path, max);
  text.resize(have);
  return text;
}

Status write_file(const std::string& path, std::string_view text, unsigned mode) {
  const std::string temporary = path + ".new";
  ::unlink(temporary.c_str());
  UniqueFd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!fd) return error_errno(errno, temporary);
  while (!text.empty()) {
    const ssize_t n = ::write(fd.get(), text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return error_errno(errno, temporary);
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  if (::fsync(fd.get()) != 0) return error_errno(errno, temporary);
  if (::rename(temporary.c_str(), path.c_str()) != 0) return error_errno(errno, path);
  return sync_directory(path.substr(0, path.rfind('/')));
}

Status make_directories(const std::string& path, unsigned mode) {
  for (std::size_t cut = path.find('/', 1); true; cut = path.find('/', cut + 1)) {
    const std::string part = path.substr(0, cut);
    const bool last = cut == std::string::npos;
    if (::mkdir(part.c_str(), last ? mode : 0755) != 0 && errno != EEXIST) return error_errno(errno, part);
    if (last) break;
  }
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return error_errno(errno, path);
  if (!S_ISDIR(info.st_mode)) return error(VP_INVALID, "{}: is no directory", path);
  return {};
}

Status sync_directory(const std::string& path) {
  const UniqueFd fd(::open(path.empty() ? "/" : path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return error_errno(errno, path);
  if (::fsync(fd.get()) != 0) return error_errno(errno, path);
  return {};
}

}  // namespace vrampool::service
