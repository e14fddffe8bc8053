// macOS: who is on the other end of a unix socket, and the flags that Linux sets at birth.
#include "platform/posix/unix_peer.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>
#include <unistd.h>

namespace vrampool::platform {

Result<PeerCredentials> peer_credentials(int fd) {
  PeerCredentials c;
  if (::getpeereid(fd, &c.uid, &c.gid) != 0) return error_errno(errno, "asking who is on the other end of a socket");
  pid_t pid = 0;
  socklen_t n = sizeof pid;
  if (::getsockopt(fd, SOL_LOCAL, LOCAL_PEERPID, &pid, &n) == 0) c.pid = pid;
  return c;
}

namespace unix_peer {

namespace {
// MSG_NOSIGNAL and SOCK_CLOEXEC do not exist here: three calls per socket instead.
UniqueFd prepare(UniqueFd fd) {
  const int on = 1;
  if (fd && (::fcntl(fd.get(), F_SETFD, FD_CLOEXEC) != 0 || ::fcntl(fd.get(), F_SETFL, O_NONBLOCK) != 0 ||
             ::setsockopt(fd.get(), SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on) != 0)) {
    const int why = errno;
    fd.reset();
    errno = why;
  }
  return fd;
}
}  // namespace

UniqueFd make_socket() { return prepare(UniqueFd(::socket(AF_UNIX, SOCK_STREAM, 0))); }
UniqueFd accept(int listener) { return prepare(UniqueFd(::accept(listener, nullptr, nullptr))); }

bool make_pair(int ends[2]) {
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return false;
  UniqueFd a = prepare(UniqueFd(ends[0]));
  UniqueFd b = prepare(UniqueFd(ends[1]));
  if (!a || !b) return false;
  ends[0] = a.release();
  ends[1] = b.release();
  return true;
}

int send_flags() { return 0; }
int receive_flags() { return 0; }
void mark_received(int fd) { ::fcntl(fd, F_SETFD, FD_CLOEXEC); }

}  // namespace unix_peer
}  // namespace vrampool::platform
