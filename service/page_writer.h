// Turns bytes that come in the order of their files into whole pages of a segment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "base/limits.h"
#include "base/result.h"
#include "wire/record_generated.h"

namespace vrampool::service {

// Whole pages go straight through. A page whose bytes come from several ranges waits until its last byte is there;
// bytes in no range are zero.
class PageWriter {
 public:
  using Write = std::function<Status(std::uint64_t offset, std::span<const std::byte> pages)>;
  PageWriter(const std::vector<wire::FileRangeT>& ranges, Write write);
  // REQUIRES: a part ends inside a page only where its range ends.
  Status put(std::uint64_t offset, std::span<const std::byte> bytes);
  // REQUIRES: every range was put. True when no page is left waiting.
  bool complete() const { return waiting_.empty(); }

 private:
  struct Page {
    std::uint64_t missing = 0;     // bytes of ranges that have not come
    std::vector<std::byte> bytes;  // empty until the first comes
  };
  Status put_part(std::uint64_t offset, std::span<const std::byte> bytes);
  void expect(std::uint64_t offset, std::uint64_t bytes);
  std::map<std::uint64_t, Page> waiting_;
  Write write_;
};

}  // namespace vrampool::service
