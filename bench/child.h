// A forked child that serves a baseline over blocking sockets, and its CPU time. Internal to bench/.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "base/result.h"
#include "base/unique_fd.h"
#include "transport/tls.h"

namespace vrampool::bench {

// Ownership: ends the child when destroyed (its socket closes, then it is waited for).
class Child {
 public:
  // Runs `serve` in a new process, which exits when `serve` returns.
  static Result<Child> start(const std::function<void()>& serve);
  Child(Child&& o) noexcept : pid_(std::exchange(o.pid_, 0)) {}
  Child& operator=(Child&& o) noexcept { return std::swap(pid_, o.pid_), *this; }
  ~Child();
  int pid() const { return pid_; }
  std::int64_t cpu_ns() const;

 private:
  explicit Child(int pid) : pid_(pid) {}
  int pid_ = 0;
};

// Blocking bytes, plain or TLS.
class End {
 public:
  virtual ~End() = default;
  virtual bool read(std::span<std::byte> all) = 0;
  virtual bool write(std::span<const std::byte> head, std::span<const std::byte> body) = 0;
};
std::unique_ptr<End> plain_end(UniqueFd fd);
// Bare OpenSSL on a blocking socket. Null: the handshake failed.
std::unique_ptr<End> tls_end(UniqueFd fd, bool client);

// A listening socket on loopback, and connections to it; TCP_NODELAY set.
Result<std::pair<UniqueFd, std::uint16_t>> listen_loopback();
Result<UniqueFd> connect_loopback(std::uint16_t port);
Result<UniqueFd> accept_one(int listener);
Result<std::pair<UniqueFd, UniqueFd>> blocking_pair();

std::int64_t now_ns();
std::int64_t own_cpu_ns();

// CPU of this process and of `children` between construction and ns().
class CpuMeter {
 public:
  explicit CpuMeter(std::span<const Child> children) : children_(children), start_(total()) {}
  std::int64_t ns() const { return total() - start_; }

 private:
  std::int64_t total() const;
  std::span<const Child> children_;
  std::int64_t start_;
};

}  // namespace vrampool::bench
