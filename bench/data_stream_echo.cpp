// Reads between two processes through DataStream, poll-driven at both ends: what the rail itself costs beside the bare
// echo and the bare stream.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>

#include <cstring>
#include <vector>

#include "base/crc32c.h"
#include "base/text.h"
#include "bench/baselines.h"
#include "bench/child.h"
#include "bench/crc_table.h"
#include "transport/data_stream.h"
#include "transport/tcp/socket.h"

namespace vrampool::bench {
namespace {

using transport::DataStream;
using transport::Incoming;

const transport::PoolKey& bench_key() {
  static const transport::PoolKey key{"bench", std::vector<std::byte>(32, std::byte{0x42})};
  return key;
}

// Drives one stream until `done`; false: it closed.
template <class Done>
bool drive(DataStream& stream, Done done) {
  bool more = false;
  while (!done()) {
    if (stream.closed()) return false;
    const short events = static_cast<short>(POLLIN | (stream.wants_write() ? POLLOUT : 0));
    pollfd watched{stream.fd(), events, 0};
    ::poll(&watched, 1, more ? 0 : 10000);
    if (watched.revents & POLLOUT) stream.on_writable();
    if (more || (watched.revents & (POLLIN | POLLHUP | POLLERR)))
      more = stream.on_readable() == DataStream::Progress::more;
  }
  return true;
}

struct Shape {
  std::uint32_t bytes = kPageBytes;  // of one read
  std::uint32_t window = 1;          // reads under way
  std::size_t blocks = 1;            // the bytes come from and go to this many places in turn
  bool tls = false;
  bool server_crc = false;  // taken for every answer, not once
  bool reader_crc = true;
};

struct Server final : transport::StreamHandler {
  Shape shape;
  std::vector<std::byte> source, table;
  std::size_t next = 0;
  explicit Server(const Shape& s)
      : shape(s), source(s.blocks * s.bytes, std::byte{0x5a}), table(wire::crc_table_bytes(s.bytes)) {
    take_crcs(std::span<const std::byte>(source).first(s.bytes), table);
  }
  Status on_hello(DataStream&, const wire::DataHeader&, const wire::Ticket&) override { return {}; }
  void on_message(DataStream& stream, const Incoming& m) override {
    const auto block = std::span<const std::byte>(source).subspan(next++ % shape.blocks * shape.bytes, shape.bytes);
    wire::DataHeader answer = m.header;
    answer.kind = wire::DataKind::data;
    if (shape.server_crc) take_crcs(block, table);
    stream.send({answer, table, block});
  }
  void on_closed(DataStream&, const Error&) override {}
};

struct Reader final : transport::StreamHandler {
  Shape shape;
  std::vector<std::byte> target, table;
  std::vector<std::uint64_t> came_at;
  bool wrong = false;
  std::span<std::byte> place(RequestNo r) {
    return std::span(target).subspan(r.value % shape.blocks * shape.bytes, shape.bytes);
  }
  std::span<std::byte> on_header(DataStream&, const wire::DataHeader& h) override { return place(h.request); }
  void on_message(DataStream&, const Incoming& m) override {
    if (shape.reader_crc) take_crcs(m.body, table);
    wrong |= shape.reader_crc && !std::equal(table.begin(), table.end(), m.side.begin(), m.side.end());
    came_at.push_back(static_cast<std::uint64_t>(now_ns()));
  }
  void on_closed(DataStream&, const Error&) override {}
};

struct Reads {
  std::vector<Child> children;
  Reader reader;
  std::unique_ptr<transport::TlsContext> tls;
  std::unique_ptr<DataStream> stream;
  std::uint64_t request = 0;

  bool ask() {
    wire::DataHeader h;
    h.kind = wire::DataKind::read;
    h.request = RequestNo{++request};
    h.length = reader.shape.bytes;
    if (reader.shape.window == 1) stream->expect(h.request, reader.place(h.request));
    return stream->send({h});
  }
  Result<Samples> run(std::size_t n) {
    Samples s;
    s.bytes_per_op = reader.shape.bytes;
    reader.came_at.clear();
    reader.came_at.reserve(n);
    s.ns.reserve(n);
    const CpuMeter cpu(children);
    std::size_t asked = 0;
    auto last = static_cast<std::uint64_t>(now_ns());
    for (std::size_t i = 0; i < n; ++i) {
      if (reader.shape.window == 1) last = static_cast<std::uint64_t>(now_ns());
      for (; asked < n && asked < i + reader.shape.window; ++asked)
        if (!ask()) return error(VP_FAILED, "the data stream is full");
      if (!drive(*stream, [&] { return reader.came_at.size() > i; }) || reader.wrong)
        return error(VP_FAILED, "the data stream broke off");
      s.ns.push_back(reader.came_at[i] - last);
      last = reader.came_at[i];
    }
    s.cpu_ns = cpu.ns();
    return s;
  }
};

void serve(int listener, const Shape& shape) {
  auto fd = accept_one(listener);
  if (!fd || ::fcntl(fd->get(), F_SETFL, O_NONBLOCK) != 0) return;
  auto context = transport::TlsContext::server(std::span(&bench_key(), 1));
  transport::StreamOptions o;
  o.greeting = transport::Greeting::judge;
  if (shape.tls) o.tls = &*context;
  Server server(shape);
  auto stream = DataStream::create(std::move(*fd), o, server);
  if (stream) drive(**stream, [] { return false; });
}

Result<Measured> reads(const Shape& shape, std::string name) {
  auto reads = std::make_shared<Reads>();
  reads->reader.shape = shape;
  reads->reader.target.resize(shape.blocks * shape.bytes);
  reads->reader.table.resize(wire::crc_table_bytes(shape.bytes));
  VP_TRY(listener, listen_loopback());
  VP_TRY(child, Child::start([&] { serve(listener.first.get(), shape); }));
  reads->children.push_back(std::move(child));
  VP_TRY(context, transport::TlsContext::client(bench_key()));
  reads->tls = std::make_unique<transport::TlsContext>(context);
  VP_TRY(fd, transport::tcp::connect("127.0.0.1", listener.second));
  transport::StreamOptions o;
  o.greeting = transport::Greeting::offer;
  o.connecting = true;
  if (shape.tls) o.tls = reads->tls.get();
  VP_TRY(stream, DataStream::create(std::move(fd), o, reads->reader));
  reads->stream = std::move(stream);
  if (!drive(*reads->stream, [&] { return reads->stream->open(); }))
    return error(VP_FAILED, "the data stream did not open");
  return Measured{std::move(name), [reads](std::size_t n) { return reads->run(n); }};
}

}  // namespace

Result<Measured> data_stream_echo(const EchoOptions& options) {
  if (options.relay) return error(VP_UNSUPPORTED, "the data stream echo has no process in between");
  Shape shape;
  shape.bytes = options.bytes;
  shape.tls = options.tls;
  shape.reader_crc = options.verify_crc;
  return reads(shape, fmt::format("data stream, {}, {} KiB{}", options.tls ? "tls" : "tcp", options.bytes / 1024,
                                  options.verify_crc ? ", crc" : ""));
}

Result<Measured> data_stream_stream(StreamOptionsBare options) {
  Shape shape;
  shape.bytes = std::min<std::uint32_t>(options.block_bytes, kPagesPerMessageMax * kPageBytes);
  shape.window = std::max<std::uint32_t>(2, (8u << 20) / shape.bytes);
  shape.blocks = std::max<std::size_t>(1, (64u << 20) / shape.bytes);
  shape.tls = options.tls;
  shape.server_crc = shape.reader_crc = options.crc_both_sides;
  return reads(shape, fmt::format("data stream, {}, {} reads{}", options.tls ? "tls" : "tcp", format_bytes(shape.bytes),
                                  options.crc_both_sides ? ", crc both sides" : ""));
}

}  // namespace vrampool::bench
