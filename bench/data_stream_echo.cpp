// Page reads between two processes through DataStream, poll-driven at both ends: what the rail costs beside the bare
// echo.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>

#include <cstring>
#include <vector>

#include "base/crc32c.h"
#include "bench/baselines.h"
#include "bench/child.h"
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

struct Server final : transport::StreamHandler {
  std::vector<std::byte> body, table;
  explicit Server(std::uint32_t bytes) : body(bytes, std::byte{0x5a}), table(wire::crc_table_bytes(bytes)) {
    for (std::size_t i = 0; i * 4 < table.size(); ++i) {
      const auto page = std::span<const std::byte>(body).subspan(i * kPageBytes);
      const std::uint32_t crc = crc32c(page.first(std::min(kPageBytes, page.size())));
      std::memcpy(table.data() + 4 * i, &crc, 4);
    }
  }
  Status on_hello(DataStream&, const wire::DataHeader&, const wire::Ticket&) override { return {}; }
  void on_message(DataStream& stream, const Incoming& m) override {
    wire::DataHeader answer = m.header;
    answer.kind = wire::DataKind::data;
    stream.send({answer, table, body});
  }
  void on_closed(DataStream&, const Error&) override {}
};

struct Reader final : transport::StreamHandler {
  std::vector<std::byte> landing;
  std::uint64_t came = 0;
  bool verify = true, wrong = false;
  std::span<std::byte> on_header(DataStream&, const wire::DataHeader& h) override {
    return std::span(landing).first(h.length);
  }
  void on_message(DataStream&, const Incoming& m) override {
    ++came;
    for (std::size_t i = 0; verify && i * 4 < m.side.size(); ++i) {
      std::uint32_t crc = 0;
      std::memcpy(&crc, m.side.data() + 4 * i, 4);
      const auto page = std::span<const std::byte>(m.body).subspan(i * kPageBytes);
      wrong |= crc != crc32c(page.first(std::min(kPageBytes, page.size())));
    }
  }
  void on_closed(DataStream&, const Error&) override {}
};

struct StreamEcho {
  std::vector<Child> children;
  Reader reader;
  std::unique_ptr<transport::TlsContext> tls;
  std::unique_ptr<DataStream> stream;
  std::uint64_t request = 0;

  bool read_one() {
    wire::DataHeader ask;
    ask.kind = wire::DataKind::read;
    ask.request = RequestNo{++request};
    ask.length = static_cast<std::uint32_t>(reader.landing.size());
    stream->expect(ask.request, reader.landing);
    const std::uint64_t before = reader.came;
    return stream->send({ask}) && drive(*stream, [&] { return reader.came > before; }) && !reader.wrong;
  }
  Result<Samples> run(std::size_t n) {
    Samples s;
    s.ns.reserve(n);
    s.bytes_per_op = reader.landing.size();
    const CpuMeter cpu(children);
    for (std::size_t i = 0; i < n; ++i) {
      const std::int64_t start = now_ns();
      if (!read_one()) return error(VP_FAILED, "the data stream echo broke off");
      s.ns.push_back(static_cast<std::uint64_t>(now_ns() - start));
    }
    s.cpu_ns = cpu.ns();
    return s;
  }
};

void serve(int listener, bool tls, std::uint32_t bytes) {
  auto fd = accept_one(listener);
  if (!fd || ::fcntl(fd->get(), F_SETFL, O_NONBLOCK) != 0) return;
  auto context = transport::TlsContext::server(std::span(&bench_key(), 1));
  transport::StreamOptions o;
  o.greeting = transport::Greeting::judge;
  if (tls) o.tls = &*context;
  Server server(bytes);
  auto stream = DataStream::create(std::move(*fd), o, server);
  if (stream) drive(**stream, [] { return false; });
}

}  // namespace

Result<Measured> data_stream_echo(const EchoOptions& options) {
  if (options.relay) return error(VP_UNSUPPORTED, "the data stream echo has no process in between");
  auto echo = std::make_shared<StreamEcho>();
  echo->reader.landing.resize(options.bytes);
  echo->reader.verify = options.verify_crc;
  VP_TRY(listener, listen_loopback());
  VP_TRY(child, Child::start([&] { serve(listener.first.get(), options.tls, options.bytes); }));
  echo->children.push_back(std::move(child));
  VP_TRY(context, transport::TlsContext::client(bench_key()));
  echo->tls = std::make_unique<transport::TlsContext>(context);
  VP_TRY(fd, transport::tcp::connect("127.0.0.1", listener.second));
  transport::StreamOptions o;
  o.greeting = transport::Greeting::offer;
  o.connecting = true;
  if (options.tls) o.tls = echo->tls.get();
  VP_TRY(stream, DataStream::create(std::move(fd), o, echo->reader));
  echo->stream = std::move(stream);
  if (!drive(*echo->stream, [&] { return echo->stream->open(); }))
    return error(VP_FAILED, "the data stream did not open");
  auto name = fmt::format("data stream, {}, {} KiB{}", options.tls ? "tls" : "tcp", options.bytes / 1024,
                          options.verify_crc ? ", crc" : "");
  return Measured{std::move(name), [echo](std::size_t n) { return echo->run(n); }};
}

}  // namespace vrampool::bench
