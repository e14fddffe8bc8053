// Assembling pages.
#include "service/page_writer.h"

#include <algorithm>
#include <cstring>

namespace vrampool::service {

PageWriter::PageWriter(const std::vector<wire::FileRangeT>& ranges, Write write) : write_(std::move(write)) {
  for (const wire::FileRangeT& r : ranges) {
    if (r.bytes == 0) continue;
    const std::uint64_t first = r.segment_offset / kPageBytes, last = (r.segment_offset + r.bytes - 1) / kPageBytes;
    const std::uint64_t head = std::min(r.bytes, (first + 1) * kPageBytes - r.segment_offset);
    if (head < kPageBytes) expect(r.segment_offset, head);
    if (last != first && (r.segment_offset + r.bytes) % kPageBytes != 0)
      expect(last * kPageBytes, r.segment_offset + r.bytes - last * kPageBytes);
  }
}

void PageWriter::expect(std::uint64_t offset, std::uint64_t bytes) { waiting_[offset / kPageBytes].missing += bytes; }

Status PageWriter::put(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::uint64_t into_page = offset % kPageBytes;
    std::size_t n = bytes.size() / kPageBytes * kPageBytes;
    if (into_page != 0 || n == 0) {
      n = std::min<std::size_t>(bytes.size(), kPageBytes - into_page);
      VP_CHECK(put_part(offset, bytes.first(n)));
    } else {
      VP_CHECK(write_(offset, bytes.first(n)));
    }
    offset += n;
    bytes = bytes.subspan(n);
  }
  return {};
}

Status PageWriter::put_part(std::uint64_t offset, std::span<const std::byte> bytes) {
  const std::uint64_t number = offset / kPageBytes;
  Page& page = waiting_[number];
  if (page.bytes.empty()) page.bytes.resize(kPageBytes);
  std::memcpy(page.bytes.data() + offset % kPageBytes, bytes.data(), bytes.size());
  page.missing -= std::min<std::uint64_t>(page.missing, bytes.size());
  if (page.missing > 0) return {};
  const Status written = write_(number * kPageBytes, page.bytes);
  waiting_.erase(number);
  return written;
}

}  // namespace vrampool::service
