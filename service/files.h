// Small durable files: written whole, synced, then renamed into place.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace vrampool::service {

// Errors: larger than `max` is VP_CORRUPT.
Result<std::string> read_file(const std::string& path, std::size_t max);
Status write_file(const std::string& path, std::string_view text, unsigned mode);
// The directory and its parents; `mode` for what is made.
Status make_directories(const std::string& path, unsigned mode);
// Makes renames in it durable.
Status sync_directory(const std::string& path);

}  // namespace vrampool::service
