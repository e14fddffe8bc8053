// Linux: who is on the other end of a unix socket, and sockets born with the right flags.
#include "platform/posix/unix_peer.h"

#include <errno.h>
#include <sys/socket.h>

namespace vrampool::platform {

Result<PeerCredentials> peer_credentials(int fd) {
  ucred c{};
  socklen_t n = sizeof c;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &n) != 0)
    return error_errno(errno, "asking who is on the other end of a socket");
  return PeerCredentials{c.uid, c.gid, c.pid};
}

namespace unix_peer {

UniqueFd make_socket() { return UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }
UniqueFd accept(int listener) { return UniqueFd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)); }
bool make_pair(int ends[2]) { return ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0; }
int send_flags() { return MSG_NOSIGNAL; }
int receive_flags() { return MSG_CMSG_CLOEXEC; }
void mark_received(int) {}

}  // namespace unix_peer
}  // namespace vrampool::platform
