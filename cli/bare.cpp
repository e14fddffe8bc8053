#include "cli/bare.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <thread>

#include "base/crc32c.h"
#include "base/limits.h"
#include "base/unique_fd.h"
#include "platform/clock.h"

namespace vrampool::cli {
namespace {

constexpr std::size_t kQuestionBytes = 96;  // as long as our data header
constexpr std::size_t kStreamChunkBytes = 1 << 20;

struct Pair {
  UniqueFd asker, answerer;
};

Result<Pair> connected_pair() {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  Pair p{UniqueFd(::socket(AF_INET, SOCK_STREAM, 0)), UniqueFd()};
  if (::bind(listener.get(), generic, size) != 0 || ::listen(listener.get(), 1) != 0 ||
      ::getsockname(listener.get(), generic, &size) != 0 || ::connect(p.asker.get(), generic, size) != 0) {
    return error_errno(errno, "a loopback connection");
  }
  p.answerer.reset(::accept(listener.get(), nullptr, nullptr));
  const int on = 1;
  for (const int fd : {p.asker.get(), p.answerer.get()}) ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return p;
}

bool receive_all(int fd, std::span<std::byte> to) {
  while (!to.empty()) {
    const ssize_t n = ::recv(fd, to.data(), to.size(), 0);
    if (n <= 0) return false;
    to = to.subspan(static_cast<std::size_t>(n));
  }
  return true;
}

bool send_all(int fd, std::span<const std::byte> from) {
  while (!from.empty()) {
    const ssize_t n = ::send(fd, from.data(), from.size(), 0);
    if (n <= 0) return false;
    from = from.subspan(static_cast<std::size_t>(n));
  }
  return true;
}

std::uint32_t page_crcs(std::span<const std::byte> bytes) {
  std::uint32_t all = 0;
  for (std::size_t at = 0; at < bytes.size(); at += kPageBytes) {
    all ^= crc32c(bytes.subspan(at, std::min(kPageBytes, bytes.size() - at)));
  }
  return all;
}

}  // namespace

Result<BareTimes> bare_echo(std::uint64_t bytes, std::uint64_t count) {
  VP_TRY(pair, connected_pair());
  std::thread answerer([fd = pair.answerer.get(), bytes] {
    std::vector<std::byte> question(kQuestionBytes), answer(bytes);
    while (receive_all(fd, question) && send_all(fd, answer)) {
    }
  });
  BareTimes times;
  std::vector<std::byte> question(kQuestionBytes), answer(bytes);
  const Duration cpu = platform::thread_cpu_time();
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::int64_t before = platform::monotonic_ns();
    if (!send_all(pair.asker.get(), question) || !receive_all(pair.asker.get(), answer)) break;
    times.ns.push_back(platform::monotonic_ns() - before);
  }
  times.cpu_ns = static_cast<double>((platform::thread_cpu_time() - cpu).ns);
  ::shutdown(pair.asker.get(), SHUT_RDWR);
  answerer.join();
  return times;
}

Result<double> bare_stream(std::uint64_t bytes) {
  VP_TRY(pair, connected_pair());
  std::thread sender([fd = pair.answerer.get(), bytes] {
    const std::vector<std::byte> chunk(kStreamChunkBytes, std::byte{7});
    volatile std::uint32_t sink = 0;
    for (std::uint64_t done = 0; done < bytes; done += chunk.size()) {
      sink = page_crcs(chunk);
      if (!send_all(fd, chunk)) return;
    }
    static_cast<void>(sink);
  });
  std::vector<std::byte> chunk(kStreamChunkBytes);
  const std::int64_t begun = platform::monotonic_ns();
  volatile std::uint32_t sink = 0;
  std::uint64_t done = 0;
  while (done < bytes && receive_all(pair.asker.get(), chunk)) {
    done += chunk.size();
    sink = page_crcs(chunk);
  }
  static_cast<void>(sink);
  const double seconds = static_cast<double>(platform::monotonic_ns() - begun) * 1e-9;
  sender.join();
  return static_cast<double>(done) / seconds;
}

}  // namespace vrampool::cli
