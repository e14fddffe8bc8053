#include "service/data/checks.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/crc32c.h"

namespace vrampool::service::data {

bool passes(vp_status code) { return code == VP_BUSY || code == VP_UNREACHABLE || code == VP_TIMEOUT; }

Status check_whole_pages(const wire::DataHeader& h) {
  if (h.length == 0 || h.length % kPageBytes != 0 || h.offset % kPageBytes != 0 ||
      h.length > kPagesPerMessageMax * kPageBytes)
    return error(VP_INVALID, "{} bytes at {} are not whole pages", h.length, h.offset);
  return {};
}

Result<std::uint32_t> check_crcs(const transport::Incoming& in, std::span<std::uint32_t> crcs) {
  const std::uint32_t pages = wire::pages_of(in.header.length);
  if (in.side.size() != pages * sizeof(std::uint32_t) || pages > crcs.size() || in.body.size() != in.header.length)
    return error(VP_CORRUPT, "a message of {} pages came with {} bytes of checksums", pages, in.side.size());
  std::memcpy(crcs.data(), in.side.data(), in.side.size());
  for (std::uint32_t i = 0; i < pages; ++i) {
    const auto from = static_cast<std::size_t>(i) * kPageBytes;
    if (crc32c(in.body.subspan(from, std::min(kPageBytes, in.body.size() - from))) != crcs[i]) return i;
  }
  return pages;
}

std::span<const std::byte> failure_text(const Error& why) {
  return std::as_bytes(std::span(why.message)).first(std::min(why.message.size(), transport::kSideBytesMax));
}

Error failure_of(const transport::Incoming& in) {
  const std::string text(reinterpret_cast<const char*>(in.side.data()), in.side.size());
  const auto code = in.header.status >= VP_FAILED && in.header.status <= VP_UNKNOWN_OUTCOME
                        ? static_cast<vp_status>(in.header.status)
                        : VP_FAILED;
  return Error{code, text.empty() ? "refused" : text};
}

}  // namespace vrampool::service::data
