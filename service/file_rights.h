// What a job may do with files for the person who asked: the daemon has more rights than they, and must not lend them.
#pragma once

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "service/jobs.h"

namespace vrampool::service {

struct InputFile {
  UniqueFd fd;
  std::string path;
  std::uint64_t bytes = 0;
  std::int64_t mtime_ns = 0;
};

// Opens for reading what `rights` could open itself (mode bits of the file and of every directory above it).
// Errors: VP_DENIED, VP_NOT_FOUND, VP_INVALID for anything but a regular file.
Result<InputFile> open_input(const std::string& path, const FileRights& rights);
// True for a directory that `rights` may list.
Result<bool> is_directory(const std::string& path, const FileRights& rights);
// May `rights` make files in that directory?
Status check_output_directory(const std::string& path, const FileRights& rights);
// The names in a directory, sorted. Bounded.
Result<std::vector<std::string>> list_directory(const std::string& path, const FileRights& rights);
Status read_fully(const InputFile& file, std::uint64_t offset, std::span<std::byte> into);

}  // namespace vrampool::service
