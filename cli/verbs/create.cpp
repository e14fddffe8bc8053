// vrampool create and write: a new sealed segment of zeros, or of what a file or standard input holds.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/text.h"
#include "cli/c_file.h"
#include "cli/daemon.h"
#include "cli/sdk.h"
#include "cli/verbs/verbs.h"

namespace vrampool::cli {
namespace {

constexpr std::size_t kChunkBytes = 8 << 20;

struct Source {
  CFile file;
  std::uint64_t bytes = 0;
};

// A pipe's length is known only at its end, and a segment's when it is made: spool it to an unnamed file.
Result<Source> spooled(std::FILE* from) {
  Source s{CFile(std::tmpfile()), 0};
  if (!s.file) return error_errno(errno, "a temporary file");
  std::vector<char> buffer(kChunkBytes);
  while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), from)) {
    if (std::fwrite(buffer.data(), 1, n, s.file.get()) != n) return error_errno(errno, "a temporary file");
    s.bytes += n;
  }
  if (std::ferror(from) != 0) return error_errno(errno, "standard input");
  std::rewind(s.file.get());
  return s;
}

// `bytes`: how many are wanted, 0 for all.
Result<Source> opened(const std::string& path, std::uint64_t bytes) {
  if (path == "-" && bytes == 0) return spooled(stdin);
  if (path == "-") return Source{CFile(::fdopen(::dup(STDIN_FILENO), "rb")), bytes};
  Source s{CFile(std::fopen(path.c_str(), "rb")), 0};
  struct stat about {};
  if (!s.file || ::fstat(::fileno(s.file.get()), &about) != 0) return error_errno(errno, path);
  if (!S_ISREG(about.st_mode) && bytes == 0) return spooled(s.file.get());
  const auto size = static_cast<std::uint64_t>(about.st_size);
  s.bytes = !S_ISREG(about.st_mode) ? bytes : bytes == 0 ? size : std::min(size, bytes);
  return s;
}

Status fill(vp::Segment& segment, std::FILE* from, std::uint64_t bytes) {
  std::vector<std::byte> buffer(kChunkBytes);
  for (std::uint64_t done = 0; done < bytes;) {
    const std::size_t n = std::fread(buffer.data(), 1, std::min<std::uint64_t>(buffer.size(), bytes - done), from);
    if (n == 0) return error(VP_FAILED, "the input ended after {} of {} bytes", done, bytes);
    segment.write(done, std::span(buffer).first(n));
    done += n;
  }
  return {};
}

vp_tensor data_tensor(std::uint64_t bytes) {
  auto t = VP_INIT(vp_tensor);
  t.dtype = VP_U8;
  t.rank = 1;
  t.shape[0] = t.bytes = bytes;
  std::strcpy(t.name, "data");
  std::strcpy(t.type_name, "U8");
  return t;
}

Result<int> make(const Invocation& in, Source source) {
  const std::string name = in.text("name");
  const std::string placement = in.text("--placement", in.has("--node") ? "nodes" : "spread");
  const std::vector<std::string> nodes = in.all("--node");
  std::vector<const char*> node_names;
  for (const std::string& n : nodes) node_names.push_back(n.c_str());
  const vp_tensor tensor = data_tensor(source.bytes);
  auto options = VP_INIT(vp_create_options);
  options.bytes = source.bytes;
  options.placement = placement.c_str();
  options.nodes = node_names.data();
  options.node_count = static_cast<std::uint32_t>(node_names.size());
  options.tensors = &tensor;
  options.tensor_count = 1;
  return with_session(in, [&](vp::Session& session) -> Result<int> {
    vp::Segment segment = session.create(name, options);
    if (source.file) VP_CHECK(fill(segment, source.file.get(), source.bytes));
    segment.seal();
    return say(in, "create", fmt::format("made {}, {}", name, format_bytes(source.bytes)));
  });
}

}  // namespace

Result<int> run_create(const Invocation& in) {
  Source source{nullptr, in.bytes("--bytes", 0)};
  if (in.has("--from")) {
    VP_TRY(from, opened(in.text("--from"), source.bytes));
    source = std::move(from);
  }
  if (source.bytes == 0) return error(VP_INVALID, "a segment needs at least one byte: give --bytes or --from");
  return make(in, std::move(source));
}

Result<int> run_write(const Invocation& in) {
  VP_TRY(source, opened("-", 0));
  if (source.bytes == 0) return error(VP_INVALID, "standard input is empty: a segment needs at least one byte");
  return make(in, std::move(source));
}

}  // namespace vrampool::cli
