// Unix stream sockets: paths, listen, connect, bytes with descriptors.
#include "platform/unix_socket.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "platform/posix/unix_peer.h"

namespace vrampool::platform {

namespace {

// Descriptors that a hostile peer may put beside one message; the kernel's own bound is 253.
constexpr std::size_t kDescriptorsReceivedMax = 253;

sockaddr_un address_of(const std::string& path) {
  sockaddr_un a{};
  a.sun_family = AF_UNIX;
  ::memcpy(a.sun_path, path.c_str(), path.size() + 1);
  return a;
}

bool connects(int fd, const std::string& path) {
  const sockaddr_un a = address_of(path);
  return ::connect(fd, reinterpret_cast<const sockaddr*>(&a), sizeof a) == 0;
}

bool somebody_answers(const std::string& path) {
  const UniqueFd probe = unix_peer::make_socket();
  return probe && (connects(probe.get(), path) || errno == EAGAIN);
}

Status remove_stale(const std::string& path) {
  struct stat s {};
  if (::lstat(path.c_str(), &s) != 0) return {};
  if (!S_ISSOCK(s.st_mode)) return error(VP_EXISTS, "{} is there and is no socket; move it away", path);
  if (somebody_answers(path)) return error(VP_BUSY, "another daemon already listens on {}", path);
  ::unlink(path.c_str());
  return {};
}

void attach(msghdr& m, std::span<const int> descriptors, std::span<char> room) {
  m.msg_control = room.data();
  m.msg_controllen = CMSG_SPACE(sizeof(int) * descriptors.size());
  cmsghdr* c = CMSG_FIRSTHDR(&m);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(sizeof(int) * descriptors.size());
  ::memcpy(CMSG_DATA(c), descriptors.data(), sizeof(int) * descriptors.size());
}

// True when all fitted; those beyond the list's room are closed.
bool collect_from(const cmsghdr* c, DescriptorList& into) {
  bool fitted = true;
  const std::size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
  for (std::size_t i = 0; i < n; ++i) {
    int fd = -1;
    ::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
    unix_peer::mark_received(fd);
    UniqueFd owned(fd);
    if (into.full())
      fitted = false;
    else
      into.push_back(std::move(owned));
  }
  return fitted;
}

bool collect(msghdr& m, DescriptorList& into) {
  bool fitted = true;
  for (cmsghdr* c = CMSG_FIRSTHDR(&m); c != nullptr; c = CMSG_NXTHDR(&m, c))
    if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) fitted = collect_from(c, into) && fitted;
  return fitted && (m.msg_flags & MSG_CTRUNC) == 0;
}

bool peer_is_gone(int error_number) {
  return error_number == EPIPE || error_number == ECONNRESET || error_number == ENOTCONN;
}

}  // namespace

Status check_socket_path(const std::string& path) {
  if (path.empty()) return error(VP_INVALID, "the socket path is empty; set one in the configuration");
  if (path.size() > kSocketPathBytesMax)
    return error(VP_INVALID, "the socket path {} has {} characters, the system allows {}; choose a shorter directory",
                 path, path.size(), kSocketPathBytesMax);
  return {};
}

Result<UniqueFd> listen_unix(const std::string& path, unsigned mode) {
  VP_CHECK(check_socket_path(path));
  VP_CHECK(remove_stale(path));
  UniqueFd fd = unix_peer::make_socket();
  const sockaddr_un a = address_of(path);
  if (!fd || ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&a), sizeof a) != 0)
    return error_errno(errno, "binding " + path);
  // Nobody can connect before listen, so the mode is right before it matters.
  if (::chmod(path.c_str(), static_cast<mode_t>(mode)) != 0) return error_errno(errno, "setting the mode of " + path);
  if (::listen(fd.get(), 64) != 0) return error_errno(errno, "listening on " + path);
  return fd;
}

Result<UniqueFd> accept_unix(int listener) {
  UniqueFd fd = unix_peer::accept(listener);
  if (fd || errno == EAGAIN || errno == EWOULDBLOCK || errno == ECONNABORTED || errno == EINTR) return fd;
  return error_errno(errno, "accepting a local connection");
}

Result<UniqueFd> connect_unix(const std::string& path) {
  VP_CHECK(check_socket_path(path));
  UniqueFd fd = unix_peer::make_socket();
  if (!fd) return error_errno(errno, "creating a socket");
  if (connects(fd.get(), path)) return fd;
  if (errno == ENOENT || errno == ECONNREFUSED)
    return error(VP_UNREACHABLE, "no daemon listens on {}; start vrampoold", path);
  if (errno == EAGAIN) return error(VP_BUSY, "the daemon on {} has too many connections waiting; try again", path);
  return error_errno(errno, "connecting to " + path);
}

Result<std::pair<UniqueFd, UniqueFd>> socket_pair() {
  int ends[2] = {-1, -1};
  if (!unix_peer::make_pair(ends)) return error_errno(errno, "creating a pair of sockets");
  return std::pair<UniqueFd, UniqueFd>(UniqueFd(ends[0]), UniqueFd(ends[1]));
}

Result<std::size_t> send_some(int fd, std::span<const std::byte> bytes, std::span<const int> descriptors) {
  VP_ASSERT(descriptors.size() <= kDescriptorsPerMessageMax && (descriptors.empty() || !bytes.empty()));
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kDescriptorsPerMessageMax)] = {};
  iovec io{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr m{};
  m.msg_iov = &io;
  m.msg_iovlen = 1;
  if (!descriptors.empty()) attach(m, descriptors, control);
  for (;;) {
    const ssize_t n = ::sendmsg(fd, &m, unix_peer::send_flags());
    if (n >= 0) return static_cast<std::size_t>(n);
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::size_t{0};
    if (peer_is_gone(errno)) return error(VP_UNREACHABLE, "the other side closed the connection");
    if (errno != EINTR) return error_errno(errno, "sending on a local socket");
  }
}

Result<Received> receive_some(int fd, std::span<std::byte> into, DescriptorList& descriptors) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kDescriptorsReceivedMax)];
  iovec io{into.data(), into.size()};
  for (;;) {
    msghdr m{};
    m.msg_iov = &io;
    m.msg_iovlen = 1;
    m.msg_control = control;
    m.msg_controllen = sizeof control;
    const ssize_t n = ::recvmsg(fd, &m, unix_peer::receive_flags());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Received{0, false, true};
    if (n < 0 && peer_is_gone(errno)) return Received{0, true, false};
    if (n < 0) return error_errno(errno, "receiving on a local socket");
    if (!collect(m, descriptors))
      return error(VP_INVALID, "the other side sent more descriptors than a message may carry");
    return Received{static_cast<std::size_t>(n), n == 0 && !into.empty(), false};
  }
}

}  // namespace vrampool::platform
