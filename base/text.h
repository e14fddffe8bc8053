// Sizes, rates and names as text, and back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace vrampool {

// "1.5 TiB", "16 KiB", "0 B": at most one decimal.
std::string format_bytes(std::uint64_t bytes);
// "1.5 GB/s", decimal units as networks use.
std::string format_rate(double bytes_per_second);
// "12 us", "3.4 ms", "2.1 s", "3 min 5 s".
std::string format_duration_ns(std::int64_t ns);
// "64GiB", "1.5 TB", "4096": binary for KiB/MiB/..., decimal for KB/MB/...; plain numbers are bytes.
Result<std::uint64_t> parse_bytes(std::string_view text);
// Segment names: 1..255 printable ASCII bytes, parts split by '/', no empty part, no "." or "..".
Status check_name(std::string_view name);

}  // namespace vrampool
