// TLS 1.3 with the pool key as an external pre-shared key: contexts for client and server side, and a session on
// a nonblocking descriptor. No certificates, no tickets, no early data; psk_dhe_ke, TLS_AES_128_GCM_SHA256.
//
// OpenSSL's headers stay in tls.cpp; its two handle types are declared here so that the control links can give
// the same context to their own event loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

using SSL_CTX = struct ssl_ctx_st;
using SSL = struct ssl_st;

namespace vrampool::transport {

// A pool key as TLS sees it. `id` is not secret: it tells two rotating keys apart.
struct PoolKey {
  std::string id;
  std::vector<std::byte> secret;  // 16 to 64 bytes
};

// Threads: use from any after creation. Ownership: counts references; sessions outlive it. Errors: unusable keys.
class TlsContext {
 public:
  // Offers `key`.
  static Result<TlsContext> client(const PoolKey& key);
  // Accepts any of `keys` (the current one and, during a rotation, the one before).
  static Result<TlsContext> server(std::span<const PoolKey> keys);

  SSL_CTX* native() const { return context_.get(); }
  // One more reference for a holder that frees it itself (asio::ssl::context(share())).
  SSL_CTX* share() const;

 private:
  explicit TlsContext(SSL_CTX* context);
  std::shared_ptr<SSL_CTX> context_;
};

// True if an OpenSSL error code (ERR_get_error, or the value of an asio ssl error) means that the two sides hold
// different keys.
bool means_wrong_pool_key(unsigned long openssl_error);
// The line for a person: "wrong pool key: ..." or "tls failed: <reason>".
Error tls_error(unsigned long openssl_error, const std::string& peer);

enum class TlsSide : std::uint8_t { client, server };

// One TLS connection over a nonblocking socket that it borrows. Threads: one. Blocking: never.
class TlsSession {
 public:
  static Result<TlsSession> create(const TlsContext&, TlsSide, int fd);
  TlsSession(TlsSession&&) noexcept;
  TlsSession& operator=(TlsSession&&) noexcept;
  ~TlsSession();

  enum class Outcome : std::uint8_t { done, want_read, want_write, closed, failed };
  struct Moved {
    Outcome outcome = Outcome::done;
    std::size_t bytes = 0;
  };
  Outcome handshake();
  Moved read(std::span<std::byte> into);
  // At most one record (16 KiB) is written. `more`: another record follows at once; the kernel may wait for it.
  Moved write(std::span<const std::byte> from, bool more);
  // Bytes that were decrypted or received already and that no poller will announce.
  bool has_pending() const;
  // After `failed`: what happened, to `peer`.
  Error last_error(const std::string& peer) const;

 private:
  struct State;
  explicit TlsSession(std::unique_ptr<State> state);
  Outcome classify(int returned);
  std::unique_ptr<State> state_;
};

}  // namespace vrampool::transport
