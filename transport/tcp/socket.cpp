#include "transport/tcp/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace vrampool::transport::tcp {
namespace {

constexpr int kBacklog = 128;
using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

bool make_nonblocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 && ::fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

// Buffers must be set before connect and listen: the window scale is agreed on then.
void set_buffers(int fd, const SocketOptions& o) {
  if (o.send_buffer_bytes > 0) ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &o.send_buffer_bytes, sizeof(int));
  if (o.receive_buffer_bytes > 0) ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &o.receive_buffer_bytes, sizeof(int));
}

void set_no_delay(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

Result<Addresses> look_up(const std::string& host, std::uint16_t port, int extra_flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | extra_flags;
  addrinfo* found = nullptr;
  const int failure = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (failure != 0) return error(VP_UNREACHABLE, "no address for '{}': {}", host, ::gai_strerror(failure));
  return Addresses(found, ::freeaddrinfo);
}

Result<UniqueFd> open_socket(const addrinfo& a, const SocketOptions& options) {
  UniqueFd fd(::socket(a.ai_family, a.ai_socktype, a.ai_protocol));
  if (!fd || !make_nonblocking(fd.get())) return error_errno(errno, "cannot open a socket");
  set_buffers(fd.get(), options);
  return fd;
}

std::string peer_text(const sockaddr_storage& a) {
  char text[INET6_ADDRSTRLEN] = "?";
  if (a.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(a);
    ::inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
    return fmt::format("{}:{}", text, ntohs(v4.sin_port));
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(a);
  ::inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
  return fmt::format("[{}]:{}", text, ntohs(v6.sin6_port));
}

Result<std::uint16_t> port_of(int fd) {
  sockaddr_storage a{};
  socklen_t bytes = sizeof a;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&a), &bytes) != 0) return error_errno(errno, "getsockname");
  return ntohs(a.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in&>(a).sin_port
                                      : reinterpret_cast<const sockaddr_in6&>(a).sin6_port);
}

}  // namespace

Result<UniqueFd> connect(const std::string& host, std::uint16_t port, const SocketOptions& options) {
  VP_TRY(addresses, look_up(host, port, 0));
  Error last = error(VP_UNREACHABLE, "no address for '{}'", host);
  for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) {
    auto fd = open_socket(*a, options);
    if (!fd) return fd;
    set_no_delay(fd->get());
    if (::connect(fd->get(), a->ai_addr, a->ai_addrlen) == 0 || errno == EINPROGRESS) return fd;
    last = error(VP_UNREACHABLE, "cannot connect to {}:{}: {}", host, port, std::strerror(errno));
  }
  return last;
}

Result<Listener> Listener::open(const std::string& address, std::uint16_t port, const SocketOptions& options) {
  VP_TRY(addresses, look_up(address, port, AI_PASSIVE));
  VP_TRY(fd, open_socket(*addresses, options));
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(fd.get(), addresses->ai_addr, addresses->ai_addrlen) != 0 || ::listen(fd.get(), kBacklog) != 0)
    return error_errno(errno, fmt::format("cannot listen for data connections on {}:{}", address, port));
  VP_TRY(bound, port_of(fd.get()));
  return Listener(std::move(fd), bound, options);
}

Result<std::optional<Accepted>> Listener::accept() {
  sockaddr_storage peer{};
  socklen_t bytes = sizeof peer;
  UniqueFd fd(::accept(fd_.get(), reinterpret_cast<sockaddr*>(&peer), &bytes));
  if (!fd) {
    const bool nobody = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ECONNABORTED;
    if (nobody) return std::optional<Accepted>{};
    return error_errno(errno, "cannot take a data connection");
  }
  if (!make_nonblocking(fd.get())) return error_errno(errno, "cannot set up a data connection");
  set_no_delay(fd.get());
  return std::optional<Accepted>(Accepted{std::move(fd), peer_text(peer)});
}

}  // namespace vrampool::transport::tcp
