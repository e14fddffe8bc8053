// Rules for names and sizes of shared objects, and the directory that holds them.
#include "platform/posix/object_names.h"

#include <errno.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>

#include "base/limits.h"

namespace vrampool::platform {

namespace {
constexpr std::size_t kObjectNameBytesMax = 100;
bool allowed(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-'; }
}  // namespace

Status check_object_name(std::string_view name) {
  const bool good = !name.empty() && name.size() <= kObjectNameBytesMax && name[0] != '.' &&
                    std::all_of(name.begin(), name.end(), allowed);
  if (!good)
    return error(VP_INVALID, "\"{}\" cannot name a shared object: 1 to {} of A-Z a-z 0-9 . _ -", name,
                 kObjectNameBytesMax);
  return {};
}

Status check_object_bytes(std::uint64_t bytes) {
  if (bytes == 0 || bytes > kPieceBytesMax)
    return error(VP_INVALID, "a shared object has 1 to {} bytes, not {}", kPieceBytesMax, bytes);
  return {};
}

Status make_directory(const std::string& directory) {
  if (directory.empty() || directory[0] != '/')
    return error(VP_INVALID, "the object directory \"{}\" is no absolute path", directory);
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST)
    return error_errno(errno, "creating the directory " + directory);
  return {};
}

}  // namespace vrampool::platform
