// Puts checked bytes into a shared object: the only way in which page bytes reach a piece or a cache object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "platform/shared_object.h"

namespace vrampool::service::data {

// Makes room and copies in one step: pwrite where the object allows it (no page-table work, a full file system is an
// answer and not a signal), else reserve and memcpy through the alias. The object must be mapped.
// Errors: VP_NO_SPACE; then some of the bytes may stand there.
Status land(platform::SharedObject& object, std::uint64_t offset, std::span<const std::byte> bytes);

// Makes [offset, +bytes) read as zero again without costing memory where the system can do that.
Status blank(platform::SharedObject& object, std::uint64_t offset, std::uint64_t bytes);

}  // namespace vrampool::service::data
