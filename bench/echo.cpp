// Page reads as barely as possible: blocking sockets, plain or OpenSSL, with or without a process in between.
#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "base/crc32c.h"
#include "bench/baselines.h"
#include "bench/child.h"

namespace vrampool::bench {
namespace {

constexpr std::size_t kAskBytes = 96;

std::size_t pages_in(std::uint32_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes; }

// One answer: header, a crc per page, the bytes.
struct Answer {
  std::vector<std::byte> head, body;
  explicit Answer(std::uint32_t bytes) : head(kAskBytes + 4 * pages_in(bytes)), body(bytes, std::byte{0x5a}) {
    for (std::size_t i = 0; i < pages_in(bytes); ++i) {
      const std::uint32_t crc = crc32c(page(i));
      std::memcpy(head.data() + kAskBytes + 4 * i, &crc, 4);
    }
  }
  std::span<const std::byte> page(std::size_t i) const {
    const std::size_t at = i * kPageBytes;
    return std::span(body).subspan(at, std::min(kPageBytes, body.size() - at));
  }
  bool good() const {
    for (std::size_t i = 0; i < pages_in(static_cast<std::uint32_t>(body.size())); ++i) {
      std::uint32_t crc = 0;
      std::memcpy(&crc, head.data() + kAskBytes + 4 * i, 4);
      if (crc != crc32c(page(i))) return false;
    }
    return true;
  }
};

void serve_reads(End& end, std::uint32_t bytes) {
  const Answer answer(bytes);
  std::vector<std::byte> ask(kAskBytes);
  while (end.read(ask))
    if (!end.write(answer.head, answer.body)) return;
}

// Passes asks on and answers back, whole message by whole message.
void serve_relay(End& near, End& far, std::uint32_t bytes) {
  Answer answer(bytes);
  std::vector<std::byte> ask(kAskBytes);
  while (near.read(ask) && far.write(ask, {}) && far.read(answer.head) && far.read(answer.body))
    if (!near.write(answer.head, answer.body)) return;
}

std::unique_ptr<End> make_end(UniqueFd fd, bool tls, bool client) {
  return tls ? tls_end(std::move(fd), client) : plain_end(std::move(fd));
}

struct Echo {
  EchoOptions options;
  std::vector<Child> children;
  std::unique_ptr<End> end;
  Answer answer;
  explicit Echo(const EchoOptions& o) : options(o), answer(o.bytes) {}
  ~Echo() { end.reset(); }

  Result<Samples> run(std::size_t n) {
    Samples s;
    s.ns.reserve(n);
    s.bytes_per_op = options.bytes;
    const std::vector<std::byte> ask(kAskBytes);
    const CpuMeter cpu(children);
    for (std::size_t i = 0; i < n; ++i) {
      const std::int64_t start = now_ns();
      const bool ok = end->write(ask, {}) && end->read(answer.head) && end->read(answer.body);
      if (!ok || (options.verify_crc && !answer.good())) return error(VP_FAILED, "the bare echo broke off");
      s.ns.push_back(static_cast<std::uint64_t>(now_ns() - start));
    }
    s.cpu_ns = cpu.ns();
    return s;
  }
};

std::string name_of(const EchoOptions& o) {
  return fmt::format("bare {} echo, {} KiB{}{}", o.tls ? "OpenSSL" : "socket", o.bytes / 1024,
                     o.verify_crc ? ", crc" : "", o.relay ? ", one process between" : "");
}

}  // namespace

Result<Measured> bare_echo(const EchoOptions& options) {
  auto echo = std::make_shared<Echo>(options);
  VP_TRY(listener, listen_loopback());
  const std::uint16_t port = listener.second;
  VP_TRY(server, Child::start([&, fd = listener.first.get()] {
           auto accepted = accept_one(fd);
           if (!accepted) return;
           if (auto end = make_end(std::move(*accepted), options.tls, false)) serve_reads(*end, options.bytes);
         }));
  echo->children.push_back(std::move(server));
  if (!options.relay) {
    VP_TRY(fd, connect_loopback(port));
    echo->end = make_end(std::move(fd), options.tls, true);
  } else {
    VP_TRY(pair, blocking_pair());
    VP_TRY(relay, Child::start([&] {
             pair.first.reset();
             auto fd = connect_loopback(port);
             if (!fd) return;
             auto far = make_end(std::move(*fd), options.tls, true);
             auto near = plain_end(std::move(pair.second));
             if (far) serve_relay(*near, *far, options.bytes);
           }));
    echo->children.push_back(std::move(relay));
    echo->end = plain_end(std::move(pair.first));
  }
  if (!echo->end) return error(VP_FAILED, "the bare OpenSSL handshake failed");
  return Measured{name_of(options), [echo](std::size_t n) { return echo->run(n); }};
}

}  // namespace vrampool::bench
