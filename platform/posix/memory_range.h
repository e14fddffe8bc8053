// Address ranges: reserve, map over, mark as not for children and dumps. Inside the platform room only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"

namespace vrampool::platform {

// Reserves address space without memory, aligned to `align` (a power of two, at least the kernel's page).
Result<std::byte*> reserve_range(std::uint64_t bytes, std::size_t align);
void release_range(std::byte* at, std::uint64_t bytes);
// kMapAlignBytes for ranges of that length, else the fault granule.
std::size_t range_alignment(std::uint64_t bytes);

// A child does not inherit the range (it gets SIGSEGV there instead of zeros), a core dump does not hold it.
Status keep_private(std::byte* at, std::uint64_t bytes);
// Only small pages in this mapping.
void forbid_huge_pages(std::byte* at, std::uint64_t bytes);

}  // namespace vrampool::platform
