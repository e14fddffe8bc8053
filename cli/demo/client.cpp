#include "cli/demo/client.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "base/crc32c.h"
#include "base/limits.h"
#include "base/unique_fd.h"
#include "cli/sdk.h"
#include "platform/clock.h"

namespace vrampool::cli {
namespace {

double seconds_since(std::int64_t begun_ns) { return static_cast<double>(platform::monotonic_ns() - begun_ns) * 1e-9; }

// One load from each page, and how long each took.
void touch(std::span<const std::byte> bytes, std::vector<std::int64_t>& times) {
  std::int64_t before = platform::monotonic_ns();
  for (std::size_t at = 0; at < bytes.size(); at += kPageBytes) {
    static_cast<void>(*const_cast<const volatile std::byte*>(&bytes[at]));
    const std::int64_t after = platform::monotonic_ns();
    times.push_back(after - before);
    before = after;
  }
}

Result<std::uint32_t> file_crc(int fd, std::uint64_t offset, std::uint64_t bytes) {
  std::vector<std::byte> buffer(4 << 20);
  std::uint32_t crc = 0;
  while (bytes > 0) {
    const ssize_t n =
        ::pread(fd, buffer.data(), std::min<std::uint64_t>(bytes, buffer.size()), static_cast<off_t>(offset));
    if (n <= 0) return error(VP_FAILED, "the model file ends too early");
    crc = crc32c(std::span(buffer).first(static_cast<std::size_t>(n)), crc);
    offset += static_cast<std::uint64_t>(n);
    bytes -= static_cast<std::uint64_t>(n);
  }
  return crc;
}

struct Model {
  std::vector<vp_tensor> tensors;
  std::vector<std::string> names;
  std::vector<std::uint32_t> crcs;
};

Result<Model> expected(const vp::Segment& segment, const std::string& file) {
  const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return error_errno(errno, file);
  Model m;
  m.tensors = segment.tensors();
  for (const vp_tensor& t : m.tensors) {
    VP_TRY(crc, file_crc(fd.get(), t.offset, t.bytes));
    m.crcs.push_back(crc);
    m.names.push_back(t.name);
  }
  return m;
}

Status compare(const vp::View& view, const Model& model, const char* how) {
  for (std::size_t i = 0; i < model.tensors.size(); ++i) {
    if (crc32c(view.as(i)) != model.crcs[i]) {
      return error(VP_CORRUPT, "tensor {} differs from the file ({} map)", model.names[i], how);
    }
  }
  return {};
}

Status scan_lazily(const vp::Segment& segment, const Model& model, ScanFigures& f) {
  vp::MapOptions lazy;
  lazy.lazy = true;
  const vp::View view = segment.map_tensors(model.names, lazy);
  const std::int64_t begun = platform::monotonic_ns();
  for (std::size_t i = 0; i < model.tensors.size(); ++i) {
    touch(view.as(i), f.touch_ns);
    f.bytes += view.as(i).size();
  }
  f.lazy_bytes_per_second = static_cast<double>(f.bytes) / seconds_since(begun);
  std::sort(f.touch_ns.begin(), f.touch_ns.end(), std::greater<>());
  f.pages = (f.bytes + kPageBytes - 1) / kPageBytes;
  VP_CHECK(compare(view, model, "lazy"));
  view.check();
  return {};
}

Status map_resident(const vp::Segment& segment, const Model& model, ScanFigures& f) {
  const std::int64_t begun = platform::monotonic_ns();
  const vp::View view = segment.map_tensors(model.names);
  f.resident_bytes_per_second = static_cast<double>(f.bytes) / seconds_since(begun);
  return compare(view, model, "resident");
}

template <class Body>
auto guarded(Body body) -> decltype(body()) {
  try {
    return body();
  } catch (const vp::Error& failure) {
    return Error{failure.code(), failure.what()};
  }
}

// What page `index` holds: its own number, all over.
std::vector<std::byte> sample_page(std::uint64_t index) {
  std::vector<std::byte> page(kPageBytes);
  for (std::size_t i = 0; i < page.size(); i += sizeof index) std::memcpy(&page[i], &index, sizeof index);
  return page;
}

std::uint64_t sample_offset(std::uint64_t bytes, std::uint64_t samples, std::uint64_t i) {
  return bytes / kPageBytes / samples * i * kPageBytes;
}

Status write_samples(vp::Segment& segment, std::uint64_t bytes, std::uint64_t samples, SparseFigures& f) {
  const std::int64_t begun = platform::monotonic_ns();
  for (std::uint64_t i = 0; i < samples; ++i) segment.write(sample_offset(bytes, samples, i), sample_page(i + 1));
  f.write_seconds = seconds_since(begun);
  f.written = samples;
  return {};
}

Status read_samples(const vp::Segment& segment, std::uint64_t bytes, std::uint64_t samples, SparseFigures& f) {
  const std::int64_t begun = platform::monotonic_ns();
  const std::vector<std::byte> zeros(kPageBytes);
  std::vector<std::byte> pages(2 * kPageBytes);
  for (std::uint64_t i = 0; i < samples; ++i) {
    segment.read(sample_offset(bytes, samples, i), pages);
    const auto want = sample_page(i + 1);
    const bool holds = std::equal(want.begin(), want.end(), pages.begin()) &&
                       std::equal(zeros.begin(), zeros.end(), pages.begin() + kPageBytes);
    if (!holds) return error(VP_CORRUPT, "page {} read back is not what was written", i);
  }
  f.read_seconds = seconds_since(begun);
  f.read_back = samples;
  return {};
}

}  // namespace

Result<ScanFigures> scan_model(const std::string& socket, const std::string& name, const std::string& file) {
  return guarded([&]() -> Result<ScanFigures> {
    const vp::Session session = vp::Session::connect(socket, "vrampool demo");
    const vp::Segment segment = session.open(name);
    VP_TRY(model, expected(segment, file));
    ScanFigures f;
    f.tensors = model.tensors.size();
    VP_CHECK(scan_lazily(segment, model, f));
    VP_CHECK(map_resident(segment, model, f));
    return f;
  });
}

Result<SparseFigures> fill_sparse(const std::string& writer_socket, const std::string& reader_socket,
                                  const std::string& name, std::uint64_t bytes, std::uint64_t samples) {
  return guarded([&]() -> Result<SparseFigures> {
    const vp::Session writer = vp::Session::connect(writer_socket, "vrampool demo");
    SparseFigures f;
    std::int64_t begun = platform::monotonic_ns();
    vp::Segment segment = writer.create(name, bytes);
    f.create_seconds = seconds_since(begun);
    VP_CHECK(write_samples(segment, bytes, samples, f));
    begun = platform::monotonic_ns();
    segment.seal();
    f.seal_seconds = seconds_since(begun);
    const vp::Session reader = vp::Session::connect(reader_socket, "vrampool demo");
    VP_CHECK(read_samples(reader.open(name), bytes, samples, f));
    return f;
  });
}

}  // namespace vrampool::cli
