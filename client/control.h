// Calls over the session's control socket: many threads ask at once, the service thread takes the answers in.
//
// Threads: call() any; the rest is the service thread's. Blocking: call() only, with deadlines.
// Errors: VP_TIMEOUT (no answer), VP_UNREACHABLE (the daemon stayed away), VP_UNKNOWN_OUTCOME (the connection broke
// after a request that must not be repeated had been sent), VP_CANCELLED (closed).
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "client/limits.h"
#include "client/link.h"

namespace vrampool::client {

struct CallOptions {
  Duration answer = Duration::millis(kControlCallDeadlineMs);  // from sending
  Duration away = Duration::millis(kControlCallDeadlineMs);    // how long to wait for a daemon that is gone
  bool repeatable = true;                                      // may be asked again after the connection broke
  std::span<const int> descriptors{};
};

class Control {
 public:
  Result<Envelope> call(wire::LocalBodyUnion body, const CallOptions& options);

  // ---- the service thread ----
  // Calls go on over `link` from now on.
  void connected(std::unique_ptr<Link> link, wire::AttachedT attached);
  // Calls in flight end or wait; the link is gone.
  void lost();
  void close();
  // Takes in what has arrived: answers wake their callers, unasked messages are returned.
  Result<std::vector<Envelope>> receive();
  // -1 while there is none.
  int fd() const { return raw_fd_.load(); }
  bool is_connected() const { return raw_fd_.load() >= 0; }
  wire::AttachedT attached() const;

 private:
  struct Waiter {
    bool done = false, lost = false;
    Envelope answer;
  };
  using Lock = std::unique_lock<std::mutex>;
  Result<Envelope> ask_once(const std::vector<std::byte>& request, std::uint64_t call, const CallOptions& options,
                            bool& lost);
  Status wait_connected(Lock& lock, Duration away);
  void answered(Envelope answer);

  mutable std::mutex mutex_;
  std::mutex sending_;
  std::condition_variable changed_;
  std::shared_ptr<Link> link_;  // guarded; a sender keeps the one it uses
  wire::AttachedT attached_;
  std::map<std::uint64_t, Waiter*> waiting_;
  std::uint64_t calls_ = 1000;  // below: the service thread's own, see Reattach
  bool closed_ = false;
  std::atomic<int> raw_fd_{-1};
};

}  // namespace vrampool::client
