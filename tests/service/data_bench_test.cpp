// Measures the data plane beside bare sockets of the same run; tiny by default, so that it cannot rot. VP_BENCH=1: real
// sizes.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "data_rig.h"
#include "service/data/piece_meta.h"

using namespace vrampool;
using namespace vrampool::service;
using namespace vrampool::service::test;

namespace {

constexpr std::size_t kHeader = wire::kDataHeaderBytes;
constexpr std::size_t kAnswer = kHeader + 4 + kPage;

bool real() { return std::getenv("VP_BENCH") != nullptr; }

bool all(int fd, void* p, std::size_t n, bool send) {
  auto* at = static_cast<char*>(p);
  while (n > 0) {
    const ssize_t k = send ? ::send(fd, at, n, MSG_NOSIGNAL) : ::recv(fd, at, n, 0);
    if (k <= 0) return false;
    at += k;
    n -= static_cast<std::size_t>(k);
  }
  return true;
}

std::pair<UniqueFd, UniqueFd> tcp_pair() {
  UniqueFd listener(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::bind(listener.get(), reinterpret_cast<sockaddr*>(&a), sizeof a) == 0);
  REQUIRE(::listen(listener.get(), 1) == 0);
  socklen_t n = sizeof a;
  ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&a), &n);
  UniqueFd client(::socket(AF_INET, SOCK_STREAM, 0));
  REQUIRE(::connect(client.get(), reinterpret_cast<sockaddr*>(&a), sizeof a) == 0);
  UniqueFd server(::accept(listener.get(), nullptr, nullptr));
  const int on = 1;
  for (const int fd : {client.get(), server.get()}) ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return {std::move(client), std::move(server)};
}

// Answers 96-byte requests with a header, a checksum and a page.
class EchoServer {
 public:
  EchoServer() {
    auto [client, server] = tcp_pair();
    client_ = std::move(client);
    thread_ = std::thread([fd = std::move(server)] {
      std::vector<char> ask(kHeader), answer(kAnswer);
      while (all(fd.get(), ask.data(), ask.size(), false) && all(fd.get(), answer.data(), answer.size(), true)) {
      }
    });
  }
  ~EchoServer() {
    ::shutdown(client_.get(), SHUT_RDWR);
    thread_.join();
  }
  int fd() const { return client_.get(); }
  // One read as a bare client does it, with the checksum that the data plane has too.
  std::uint32_t once(int fd) {
    const auto t = platform::monotonic_ns();
    all(fd, ask_.data(), ask_.size(), true);
    all(fd, answer_.data(), answer_.size(), false);
    sum_ ^= crc32c(std::as_bytes(std::span(answer_)).last(kPage));
    return static_cast<std::uint32_t>(platform::monotonic_ns() - t);
  }

 private:
  UniqueFd client_;
  std::thread thread_;
  std::vector<char> ask_ = std::vector<char>(kHeader), answer_ = std::vector<char>(kAnswer);
  std::uint32_t sum_ = 0;
};

// A local process in between: unix socket in front, the echo behind.
class Relay {
 public:
  Relay() {
    int fds[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    client_ = UniqueFd(fds[0]);
    thread_ = std::thread([this, fd = UniqueFd(fds[1])] {
      std::vector<char> ask(kHeader), answer(kAnswer);
      while (all(fd.get(), ask.data(), ask.size(), false)) {
        if (!all(echo_.fd(), ask.data(), ask.size(), true) || !all(echo_.fd(), answer.data(), answer.size(), false))
          return;
        if (!all(fd.get(), answer.data(), answer.size(), true)) return;
      }
    });
  }
  ~Relay() {
    ::shutdown(client_.get(), SHUT_RDWR);
    thread_.join();
  }
  std::uint32_t once() { return echo_.once(client_.get()); }

 private:
  EchoServer echo_;
  UniqueFd client_;
  std::thread thread_;
};

std::uint32_t median(std::vector<std::uint32_t> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

void print(const char* what, std::vector<std::uint32_t> ours, std::vector<std::uint32_t> bare) {
  const double a = median(std::move(ours)), b = median(std::move(bare));
  MESSAGE(fmt::format("{}: p50 {:.1f} us, bare {:.1f} us, ratio {:.2f}", what, a / 1e3, b / 1e3, a / b));
}

}  // namespace

TEST_CASE("one page, engine to engine and from a client, beside bare echoes") {
  const int rounds = real() ? 15 : 1;
  const std::uint32_t count = real() ? 1000 : 20;
  Rig rig(2, [](DataPlaneOptions& o) {
    if (const char* spin = std::getenv("VP_SPIN_US")) o.spin = Duration::micros(std::atoi(spin));
  });
  const Record r = rig.sealed_segment({{1, 256 * kPage}});
  EchoServer echo;
  Relay relay;
  Channel channel(rig[0], false);
  std::vector<std::uint32_t> engine, segment, bare, client, relayed;
  for (int round = 0; round < rounds; ++round) {
    for (const bool echoing : {true, false}) {
      DataPlane::BenchAsk ask{.peer = rig.member(1), .count = count, .echo = echoing, .segment = r->id};
      const auto a = await<DataPlane::BenchAnswer>([&](auto done) { rig[0].bench_page_read(ask, done); });
      REQUIRE_MESSAGE(a.ok(), a.error().message);
      auto& into = echoing ? engine : segment;
      into.insert(into.end(), a->ns.begin(), a->ns.end());
    }
    for (std::uint32_t i = 0; i < count; ++i) bare.push_back(echo.once(echo.fd()));
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto t = platform::monotonic_ns();
      const auto a = channel.read(r->id, i % 256 * kPage, kPage);
      client.push_back(static_cast<std::uint32_t>(platform::monotonic_ns() - t));
      REQUIRE(a.payload.size() == kPage);
    }
    for (std::uint32_t i = 0; i < count; ++i) relayed.push_back(relay.once());
  }
  print("engine to engine, echo", engine, bare);
  print("engine to engine, page of a segment", segment, bare);
  print("client through its daemon", client, relayed);
}

TEST_CASE("faults on remote pages and a scan, beside what they are made of") {
  const std::uint64_t pages = real() ? 8192 : 256;
  Rig rig(2, [](DataPlaneOptions& o) { o.cache_bytes = 4ull << 30; });
  const Record r = rig.sealed_segment({{1, pages * kPage}});
  {
    Mapping map(rig[0], r, sources().back());
    REQUIRE(map.status().ok());
    std::vector<std::uint32_t> ns;
    std::uint64_t at = 1;
    for (int i = 0; i < (real() ? 4000 : 50); ++i) {
      at = (at * 6364136223846793005ull + 1442695040888963407ull);
      const auto t = platform::monotonic_ns();
      const auto byte = map.bytes()[(at >> 33) % pages * kPage];
      ns.push_back(static_cast<std::uint32_t>(platform::monotonic_ns() - t));
      CHECK(byte == Rig::pattern_at((at >> 33) % pages * kPage));
    }
    MESSAGE(fmt::format("random fault (some hit): p50 {:.1f} us; engine's histogram p50 {:.1f} us p99 {:.1f} us",
                        median(ns) / 1e3, static_cast<double>(rig[0].figures().fault_p50_ns) / 1e3,
                        static_cast<double>(rig[0].figures().fault_p99_ns) / 1e3));
  }
  const Record s = rig.sealed_segment({{1, pages * kPage}});
  Mapping scan(rig[0], s, sources().back());
  REQUIRE(scan.status().ok());
  auto t = platform::monotonic_ns();
  std::uint64_t sum = 0;
  for (std::uint64_t p = 0; p < pages; ++p)
    for (std::uint64_t i = 0; i < kPage; i += 64) sum += static_cast<std::uint64_t>(scan.bytes()[p * kPage + i]);
  const double scan_s = static_cast<double>(platform::monotonic_ns() - t) * 1e-9;
  CHECK(sum != 0);
  std::vector<std::byte> into(pages * kPage);
  std::memset(into.data(), 1, into.size());
  t = platform::monotonic_ns();
  REQUIRE(rig[0].bulk_channel()->read(s, 0, into).ok());
  const double bulk_s = static_cast<double>(platform::monotonic_ns() - t) * 1e-9;
  auto [client, server] = tcp_pair();
  t = platform::monotonic_ns();
  std::thread sender([fd = std::move(server), n = into.size()] {
    std::vector<char> chunk(1 << 20);
    for (std::size_t sent = 0; sent < n; sent += chunk.size()) {
      (void)crc32c(std::as_bytes(std::span(chunk)));
      all(fd.get(), chunk.data(), std::min(chunk.size(), n - sent), true);
    }
  });
  std::vector<char> chunk(1 << 20);
  for (std::size_t got = 0; got < into.size(); got += chunk.size()) {
    all(client.get(), chunk.data(), std::min(chunk.size(), into.size() - got), false);
    (void)crc32c(std::as_bytes(std::span(chunk)));
  }
  sender.join();
  const double bare_s = static_cast<double>(platform::monotonic_ns() - t) * 1e-9;
  const double gib = static_cast<double>(pages * kPage) / (1 << 30);
  MESSAGE(fmt::format("scan {:.2f} GiB/s, bulk read {:.2f} GiB/s, bare stream with crc {:.2f} GiB/s", gib / scan_s,
                      gib / bulk_s, gib / bare_s));
}
