// What /proc/self/mounts says of the file system that holds a path.
#pragma once

#include <string>
#include <string_view>

namespace vrampool::platform {

struct Mount {
  std::string point;
  std::string type;
  std::string options;
};
// The mount that holds `path` (the last of the longest mount points); empty when unknown.
Mount mount_of(const std::string& path);
// "always" for `huge` when it is mounted with huge=always; empty when the option is not there.
std::string mount_option(const std::string& path, std::string_view option);

}  // namespace vrampool::platform
