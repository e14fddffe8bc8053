// What every receiver of page messages checks before it believes a byte.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "base/time.h"
#include "transport/message.h"
#include "wire/data_header.h"

namespace vrampool::service::data {

// A message of 1 .. kPagesPerMessageMax whole pages.
Status check_whole_pages(const wire::DataHeader&);

// Copies the crc table into `crcs` and returns how many pages from the front hold; all: count of pages.
// VP_CORRUPT: the table has the wrong size.
Result<std::uint32_t> check_crcs(const transport::Incoming&, std::span<std::uint32_t> crcs);

// Failures that pass by themselves, and how soon to try again; damaged answers in a row that are enough.
bool passes(vp_status);
inline constexpr Duration kTryAgain = Duration::millis(10);
inline constexpr std::uint8_t kDamagedMax = 3;

// The one line that travels in a failure.
std::span<const std::byte> failure_text(const Error&);
Error failure_of(const transport::Incoming&);

}  // namespace vrampool::service::data
