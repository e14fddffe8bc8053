// The system's part of unnamed objects; for the fault ring and for SharedObject's factories.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/unique_fd.h"

namespace vrampool::platform {

struct Unnamed {
  UniqueFd read_write;
  UniqueFd read_only;  // only where it cannot be made later
};
Result<Unnamed> make_unnamed(const char* label, std::uint64_t bytes);
// VP_INVALID when its size differs or could still change.
Status check_unnamed(int fd, std::uint64_t bytes);

}  // namespace vrampool::platform
