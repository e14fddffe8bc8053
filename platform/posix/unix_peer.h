// The few things about unix sockets that systems do differently; for posix/unix_socket.cpp only.
#pragma once

#include "platform/unix_socket.h"

namespace vrampool::platform::unix_peer {

// Non-blocking, close-on-exec, no SIGPIPE; empty with errno set on failure.
UniqueFd make_socket();
UniqueFd accept(int listener);
bool make_pair(int ends[2]);
int send_flags();
int receive_flags();
// Sets close-on-exec on a received descriptor where the kernel has not done so.
void mark_received(int fd);

}  // namespace vrampool::platform::unix_peer
