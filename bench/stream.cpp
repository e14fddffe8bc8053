// Bytes one way as barely as possible: blocks over a blocking socket, plain or OpenSSL, with crc at both ends or not.
#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "base/crc32c.h"
#include "base/text.h"
#include "bench/baselines.h"
#include "bench/child.h"
#include "bench/crc_table.h"

namespace vrampool::bench {
namespace {

// Each block is led by a crc per 16 KiB of it.
std::size_t table_bytes(std::uint32_t block) { return (block + kPageBytes - 1) / kPageBytes * 4; }

// Asked for a number of blocks, sends them. The bytes come from memory larger than a processor's cache.
void serve_blocks(End& end, const StreamOptionsBare& o) {
  const std::size_t source_blocks = std::max<std::size_t>(1, (64u << 20) / o.block_bytes);
  std::vector<std::byte> source(source_blocks * o.block_bytes, std::byte{0x3c});
  std::vector<std::byte> table(table_bytes(o.block_bytes));
  std::uint64_t blocks = 0;
  std::size_t at = 0;
  while (end.read(std::as_writable_bytes(std::span(&blocks, 1)))) {
    for (std::uint64_t i = 0; i < blocks; ++i) {
      const auto block =
          std::span<const std::byte>(source).subspan(at++ % source_blocks * o.block_bytes, o.block_bytes);
      if (o.crc_both_sides) take_crcs(block, table);
      if (!end.write(table, block)) return;
    }
  }
}

struct Stream {
  StreamOptionsBare options;
  std::vector<Child> children;
  std::unique_ptr<End> end;
  std::vector<std::byte> target, table, own;
  std::size_t at = 0;
  explicit Stream(const StreamOptionsBare& o)
      : options(o),
        target(std::max<std::size_t>(1, (64u << 20) / o.block_bytes) * o.block_bytes),
        table(table_bytes(o.block_bytes)),
        own(table.size()) {}
  ~Stream() { end.reset(); }

  Result<Samples> run(std::size_t n) {
    Samples s;
    s.ns.reserve(n);
    s.bytes_per_op = options.block_bytes;
    const std::uint64_t blocks = n;
    const CpuMeter cpu(children);
    std::int64_t last = now_ns();
    if (!end->write(std::as_bytes(std::span(&blocks, 1)), {})) return error(VP_FAILED, "the bare stream broke off");
    for (std::size_t i = 0; i < n; ++i) {
      const auto block = std::span(target).subspan(at, options.block_bytes);
      at = (at + options.block_bytes) % target.size();
      if (!end->read(table) || !end->read(block)) return error(VP_FAILED, "the bare stream broke off");
      if (options.crc_both_sides) take_crcs(block, own);
      if (options.crc_both_sides && own != table) return error(VP_CORRUPT, "the bare stream brought wrong bytes");
      const std::int64_t now = now_ns();
      s.ns.push_back(static_cast<std::uint64_t>(now - last));
      last = now;
    }
    s.cpu_ns = cpu.ns();
    return s;
  }
};

}  // namespace

Result<Measured> bare_stream(const StreamOptionsBare& options) {
  auto stream = std::make_shared<Stream>(options);
  VP_TRY(listener, listen_loopback());
  VP_TRY(server, Child::start([&, fd = listener.first.get()] {
           auto accepted = accept_one(fd);
           if (!accepted) return;
           auto end = options.tls ? tls_end(std::move(*accepted), false) : plain_end(std::move(*accepted));
           if (end) serve_blocks(*end, options);
         }));
  stream->children.push_back(std::move(server));
  VP_TRY(fd, connect_loopback(listener.second));
  stream->end = options.tls ? tls_end(std::move(fd), true) : plain_end(std::move(fd));
  if (!stream->end) return error(VP_FAILED, "the bare OpenSSL handshake failed");
  auto name = fmt::format("bare {} stream, {} blocks{}", options.tls ? "OpenSSL" : "socket",
                          format_bytes(options.block_bytes), options.crc_both_sides ? ", crc both sides" : "");
  return Measured{std::move(name), [stream](std::size_t n) { return stream->run(n); }};
}

Result<Measured> best_bare_stream(StreamOptionsBare options, std::uint64_t bytes_to_try) {
  std::uint32_t best = 0;
  double best_rate = -1;
  for (const std::uint32_t block : {64u << 10, 256u << 10, 1u << 20, 4u << 20}) {
    options.block_bytes = block;
    VP_TRY(candidate, bare_stream(options));
    const auto blocks = std::max<std::size_t>(1, bytes_to_try / block);
    VP_TRY(rows, compare({candidate}, {3, std::max<std::size_t>(1, blocks / 3), 1}));
    if (rows[0].bytes_per_second > best_rate) best_rate = rows[0].bytes_per_second, best = block;
  }
  options.block_bytes = best;
  return bare_stream(options);
}

}  // namespace vrampool::bench
