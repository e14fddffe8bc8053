// TCP sockets for the data plane: nonblocking connect, a listener, and the options every data connection has.
//
// Threads: any, one at a time per object. Blocking: never, if hosts are numeric addresses; a host *name* is
// looked up with the system's resolver and may block: resolve names on the control side.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/result.h"
#include "base/unique_fd.h"

namespace vrampool::transport::tcp {

struct SocketOptions {
  int send_buffer_bytes = 0;  // 0: the system's choice (it tunes itself)
  int receive_buffer_bytes = 0;
};

// Starts a connection; it may still be under way (StreamOptions::connecting = true).
Result<UniqueFd> connect(const std::string& host, std::uint16_t port, const SocketOptions& = {});

struct Accepted {
  UniqueFd fd;       // nonblocking, options set
  std::string peer;  // "192.0.2.7:40123"
};

class Listener {
 public:
  // port 0: any free one; see port().
  static Result<Listener> open(const std::string& address, std::uint16_t port, const SocketOptions& = {});
  int fd() const { return fd_.get(); }
  std::uint16_t port() const { return port_; }
  // Nothing: nobody waits (any more). Errors: out of descriptors and the like; try again later.
  Result<std::optional<Accepted>> accept();

 private:
  Listener(UniqueFd fd, std::uint16_t port, SocketOptions options)
      : fd_(std::move(fd)), port_(port), options_(options) {}
  UniqueFd fd_;
  std::uint16_t port_;
  SocketOptions options_;
};

}  // namespace vrampool::transport::tcp
