// Which names a shared object may have; for the bodies of ObjectStore.
#pragma once

#include <string_view>

#include "base/result.h"

namespace vrampool::platform {

Status check_object_name(std::string_view name);
Status check_object_bytes(std::uint64_t bytes);
// Creates `directory` (mode 0700) when it is missing; its parents must be there.
Status make_directory(const std::string& directory);

}  // namespace vrampool::platform
