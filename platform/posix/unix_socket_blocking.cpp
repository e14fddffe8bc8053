// Sends and receives whole messages with a deadline, for callers that have nothing else to do.
#include <errno.h>
#include <poll.h>

#include <algorithm>

#include "platform/clock.h"
#include "platform/unix_socket.h"

namespace vrampool::platform {

namespace {

Status wait_for(int fd, short events, Instant deadline) {
  const auto left = (deadline - now()).as_millis();
  if (left < 0) return error(VP_TIMEOUT, "the other side of a local socket did not answer in time");
  pollfd p{fd, events, 0};
  if (::poll(&p, 1, static_cast<int>(std::min<std::int64_t>(left + 1, 60'000))) < 0 && errno != EINTR)
    return error_errno(errno, "waiting for a local socket");
  return {};
}

}  // namespace

Status send_all(int fd, std::span<const std::byte> bytes, std::span<const int> descriptors, Duration timeout) {
  const Instant deadline = now() + timeout;
  while (!bytes.empty()) {
    VP_TRY(sent, send_some(fd, bytes, descriptors));
    bytes = bytes.subspan(sent);
    if (sent > 0) descriptors = {};
    if (sent == 0) VP_CHECK(wait_for(fd, POLLOUT, deadline));
  }
  return {};
}

Status receive_all(int fd, std::span<std::byte> into, DescriptorList& descriptors, Duration timeout) {
  const Instant deadline = now() + timeout;
  while (!into.empty()) {
    VP_TRY(got, receive_some(fd, into, descriptors));
    if (got.closed) return error(VP_UNREACHABLE, "the other side closed the connection");
    into = into.subspan(got.bytes);
    if (got.would_block) VP_CHECK(wait_for(fd, POLLIN, deadline));
  }
  return {};
}

}  // namespace vrampool::platform
