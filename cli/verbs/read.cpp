// vrampool read: bytes of a segment to standard output.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <vector>

#include "cli/sdk.h"
#include "cli/verbs/verbs.h"

namespace vrampool::cli {
namespace {

constexpr std::size_t kChunkBytes = 8 << 20;

struct Range {
  std::uint64_t offset = 0, bytes = 0;
};

// What `create` wrote is one tensor called "data", because segments themselves are whole pages.
Range whole(const vp::Segment& segment) {
  auto data = VP_INIT(vp_tensor);
  const vp_segment_info info = segment.info();
  if (info.tensors == 1 && vp_tensor_find(segment.get(), "data", &data) == VP_OK) return {data.offset, data.bytes};
  return {0, info.bytes};
}

Range wanted(const Invocation& in, const vp::Segment& segment) {
  Range r = whole(segment);
  if (in.has("--tensor")) {
    const vp_tensor t = segment.tensor(in.text("--tensor"));
    r = {t.offset, t.bytes};
  }
  const std::uint64_t skip = std::min(in.bytes("--offset", 0), r.bytes);
  return {r.offset + skip, std::min(in.bytes("--bytes", r.bytes - skip), r.bytes - skip)};
}

Result<int> copy_out(const vp::Segment& segment, Range r) {
  std::vector<std::byte> buffer(kChunkBytes);
  while (r.bytes > 0) {
    const std::size_t n = std::min<std::uint64_t>(r.bytes, buffer.size());
    segment.read(r.offset, std::span(buffer).first(n));
    if (std::fwrite(buffer.data(), 1, n, stdout) != n) return error_errno(errno, "standard output");
    r.offset += n;
    r.bytes -= n;
  }
  return std::fflush(stdout) == 0 ? Result<int>(kFine) : error_errno(errno, "standard output");
}

}  // namespace

Result<int> run_read(const Invocation& in) {
  return with_session(in, [&](vp::Session& session) -> Result<int> {
    const vp::Segment segment = session.open(in.text("name"));
    return copy_out(segment, wanted(in, segment));
  });
}

}  // namespace vrampool::cli
