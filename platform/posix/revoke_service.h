// The one service thread of a client process: applies what the daemon takes back, while the program's threads do
// whatever they do.
//
// It never allocates, logs or takes a lock that a faulting thread could hold.
#pragma once

#include "base/result.h"

namespace vrampool::platform {

class RevokeReceiver {
 public:
  virtual ~RevokeReceiver() = default;
  // The socket is readable. False: the other side closed it, stop watching. Runs on the service thread.
  virtual bool on_bell() = 0;
};

// Starts the thread with the first receiver. Watching again, after the socket changed, is the same call.
Status watch_revokes(int socket, RevokeReceiver* receiver);
// After it returns the receiver is not called any more. Ends the thread with the last receiver.
void unwatch_revokes(int socket, RevokeReceiver* receiver);

}  // namespace vrampool::platform
