#include "bench/child.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "platform/clock.h"

namespace vrampool::bench {

Result<Child> Child::start(const std::function<void()>& serve) {
  const int pid = ::fork();
  if (pid < 0) return error_errno(errno, "cannot start a process for the baseline");
  if (pid == 0) {
    ::signal(SIGPIPE, SIG_IGN);
    ::signal(SIGTERM, SIG_DFL);  // not our caller's handler
    ::signal(SIGINT, SIG_DFL);
    serve();
    ::_exit(0);  // no destructors: they belong to the parent
  }
  return Child(pid);
}

Child::~Child() {
  if (pid_ == 0) return;
  ::kill(pid_, SIGTERM);  // its sockets may be held by our caller still
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::int64_t Child::cpu_ns() const { return platform::process_cpu_time_of(pid_).ns; }

namespace {

class PlainEnd final : public End {
 public:
  explicit PlainEnd(UniqueFd fd) : fd_(std::move(fd)) {}

  bool read(std::span<std::byte> all) override {
    while (!all.empty()) {
      const ssize_t n = ::recv(fd_.get(), all.data(), all.size(), MSG_WAITALL);
      if (n <= 0) return false;
      all = all.subspan(static_cast<std::size_t>(n));
    }
    return true;
  }
  bool write(std::span<const std::byte> head, std::span<const std::byte> body) override {
    while (!head.empty() || !body.empty()) {
      iovec parts[2] = {{const_cast<std::byte*>(head.data()), head.size()},
                        {const_cast<std::byte*>(body.data()), body.size()}};
      const ssize_t n = ::writev(fd_.get(), parts, 2);
      if (n < 0) return false;
      const auto from_head = std::min(head.size(), static_cast<std::size_t>(n));
      head = head.subspan(from_head);
      body = body.subspan(static_cast<std::size_t>(n) - from_head);
    }
    return true;
  }

 private:
  UniqueFd fd_;
};

constexpr std::size_t kRecordBytes = 16 * 1024;

class TlsEnd final : public End {
 public:
  TlsEnd(UniqueFd fd, SSL* ssl) : fd_(std::move(fd)), ssl_(ssl) {}
  ~TlsEnd() override { SSL_free(ssl_); }

  bool read(std::span<std::byte> all) override {
    while (!all.empty()) {
      std::size_t n = 0;
      if (SSL_read_ex(ssl_, all.data(), all.size(), &n) != 1) return false;
      all = all.subspan(n);
    }
    return true;
  }
  bool write(std::span<const std::byte> head, std::span<const std::byte> body) override {
    return put(head) && put(body);
  }

 private:
  bool put(std::span<const std::byte> part) {
    while (!part.empty()) {
      std::size_t n = 0;
      if (SSL_write_ex(ssl_, part.data(), std::min(part.size(), kRecordBytes), &n) != 1) return false;
      part = part.subspan(n);
    }
    return true;
  }
  UniqueFd fd_;
  SSL* ssl_;
};

// Any key does: both ends are ours.
const transport::TlsContext& context(bool client) {
  static const transport::PoolKey key{"bench", std::vector<std::byte>(32, std::byte{0x42})};
  static const auto client_side = transport::TlsContext::client(key);
  static const auto server_side = transport::TlsContext::server(std::span(&key, 1));
  return client ? *client_side : *server_side;
}

void set_no_delay(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons(port);
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return a;
}

}  // namespace

std::unique_ptr<End> plain_end(UniqueFd fd) { return std::make_unique<PlainEnd>(std::move(fd)); }

std::unique_ptr<End> tls_end(UniqueFd fd, bool client) {
  SSL* ssl = SSL_new(context(client).native());
  SSL_set_fd(ssl, fd.get());
  SSL_set_read_ahead(ssl, 1);
  const bool done = (client ? SSL_connect(ssl) : SSL_accept(ssl)) == 1;
  auto end = std::make_unique<TlsEnd>(std::move(fd), ssl);
  return done ? std::move(end) : nullptr;
}

Result<std::pair<UniqueFd, std::uint16_t>> listen_loopback() {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM, 0));
  auto a = loopback(0);
  socklen_t bytes = sizeof a;
  const bool ok = fd && ::bind(fd.get(), reinterpret_cast<sockaddr*>(&a), sizeof a) == 0 &&
                  ::listen(fd.get(), 8) == 0 && ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&a), &bytes) == 0;
  if (!ok) return error_errno(errno, "cannot listen on loopback");
  return std::pair(std::move(fd), ntohs(a.sin_port));
}

Result<UniqueFd> connect_loopback(std::uint16_t port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM, 0));
  const auto a = loopback(port);
  if (!fd || ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&a), sizeof a) != 0)
    return error_errno(errno, "cannot connect over loopback");
  set_no_delay(fd.get());
  return fd;
}

Result<UniqueFd> accept_one(int listener) {
  UniqueFd fd(::accept(listener, nullptr, nullptr));
  if (!fd) return error_errno(errno, "cannot take a connection over loopback");
  set_no_delay(fd.get());
  return fd;
}

Result<std::pair<UniqueFd, UniqueFd>> blocking_pair() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0) return error_errno(errno, "cannot make a socket pair");
  return std::pair(UniqueFd(fds[0]), UniqueFd(fds[1]));
}

std::int64_t now_ns() { return platform::monotonic_ns(); }
std::int64_t own_cpu_ns() { return platform::process_cpu_time().ns; }

std::int64_t CpuMeter::total() const {
  std::int64_t sum = own_cpu_ns();
  for (const Child& c : children_) sum += c.cpu_ns();
  return sum;
}

}  // namespace vrampool::bench
