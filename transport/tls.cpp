#include "transport/tls.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/wire_habits.h"

namespace vrampool::transport {
namespace {

constexpr const char* kSuite = "TLS_AES_128_GCM_SHA256";
constexpr unsigned char kSuiteCode[2] = {0x13, 0x01};
// Received records wait here, so that one system call brings several.
constexpr std::size_t kReadBufferBytes = 68 * 1024;

using Keys = std::vector<PoolKey>;

void free_keys(void*, void* keys, CRYPTO_EX_DATA*, int, long, void*) { delete static_cast<Keys*>(keys); }

// Where a context keeps its keys: they live exactly as long as the context.
int keys_index() {
  static const int index = SSL_CTX_get_ex_new_index(0, nullptr, nullptr, nullptr, free_keys);
  return index;
}

const Keys& keys_of(SSL* ssl) { return *static_cast<Keys*>(SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), keys_index())); }

// A TLS 1.3 external PSK is handed to OpenSSL dressed as a session (RFC 8446 section 4.2.11).
SSL_SESSION* session_of(SSL* ssl, const PoolKey& key) {
  SSL_SESSION* session = SSL_SESSION_new();
  const SSL_CIPHER* suite = SSL_CIPHER_find(ssl, kSuiteCode);
  const bool ok = session != nullptr && suite != nullptr &&
                  SSL_SESSION_set1_master_key(session, reinterpret_cast<const unsigned char*>(key.secret.data()),
                                              key.secret.size()) == 1 &&
                  SSL_SESSION_set_cipher(session, suite) == 1 &&
                  SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1;
  if (ok) return session;
  SSL_SESSION_free(session);
  return nullptr;
}

int offer_key(SSL* ssl, const EVP_MD* md, const unsigned char** id, size_t* id_bytes, SSL_SESSION** session) {
  *session = nullptr;
  const PoolKey& key = keys_of(ssl).front();
  if (md != nullptr && EVP_MD_get_size(md) != 32) return 0;  // our suite hashes with SHA-256
  *session = session_of(ssl, key);
  *id = reinterpret_cast<const unsigned char*>(key.id.data());
  *id_bytes = key.id.size();
  return *session != nullptr;
}

int find_key(SSL* ssl, const unsigned char* id, size_t id_bytes, SSL_SESSION** session) {
  *session = nullptr;
  const std::string_view wanted(reinterpret_cast<const char*>(id), id_bytes);
  const Keys& keys = keys_of(ssl);
  const auto found = std::find_if(keys.begin(), keys.end(), [&](const PoolKey& k) { return k.id == wanted; });
  if (found != keys.end()) *session = session_of(ssl, *found);
  return 1;  // an unknown identity is no fault of the callback: the handshake then ends for want of a key
}

bool limit_to_psk(SSL_CTX* ctx) {
  SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(ctx, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  return SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) == 1 &&
         SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION) == 1 && SSL_CTX_set_ciphersuites(ctx, kSuite) == 1 &&
         SSL_CTX_set_num_tickets(ctx, 0) == 1 && SSL_CTX_set_max_early_data(ctx, 0) == 1 &&
         SSL_CTX_set_recv_max_early_data(ctx, 0) == 1;
}

Status check_keys(std::span<const PoolKey> keys) {
  if (keys.empty()) return error(VP_INVALID, "no pool key given");
  for (const PoolKey& key : keys) {
    if (key.id.empty() || key.id.size() > 128)
      return error(VP_INVALID, "a pool key id has 1 to 128 characters, this one has {}", key.id.size());
    if (key.secret.size() < 16 || key.secret.size() > 64)
      return error(VP_INVALID, "pool key '{}' must have 16 to 64 bytes, it has {}; make one with `vrampool init`",
                   key.id, key.secret.size());
  }
  return {};
}

Result<SSL_CTX*> make_context(const SSL_METHOD* method, std::span<const PoolKey> keys) {
  VP_CHECK(check_keys(keys));
  SSL_CTX* ctx = SSL_CTX_new(method);
  if (ctx == nullptr) return tls_error(ERR_get_error(), "this machine");
  auto owned = std::make_unique<Keys>(keys.begin(), keys.end());
  if (!limit_to_psk(ctx) || SSL_CTX_set_ex_data(ctx, keys_index(), owned.get()) != 1) {
    SSL_CTX_free(ctx);
    return tls_error(ERR_get_error(), "this machine");
  }
  owned.release();
  return ctx;
}

}  // namespace

TlsContext::TlsContext(SSL_CTX* context) : context_(context, SSL_CTX_free) {}

SSL_CTX* TlsContext::share() const {
  SSL_CTX_up_ref(context_.get());
  return context_.get();
}

Result<TlsContext> TlsContext::client(const PoolKey& key) {
  VP_TRY(ctx, make_context(TLS_client_method(), std::span(&key, 1)));
  // Without the key a server would need a certificate that we trust; we trust none.
  SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_psk_use_session_callback(ctx, offer_key);
  return TlsContext(ctx);
}

Result<TlsContext> TlsContext::server(std::span<const PoolKey> keys) {
  VP_TRY(ctx, make_context(TLS_server_method(), keys));
  SSL_CTX_set_psk_find_session_callback(ctx, find_key);
  return TlsContext(ctx);
}

bool means_wrong_pool_key(unsigned long openssl_error) {
  if (ERR_GET_LIB(openssl_error) != ERR_LIB_SSL) return false;
  switch (ERR_GET_REASON(openssl_error)) {
    case SSL_R_BINDER_DOES_NOT_VERIFY:           // server: same id, other secret
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:  // server: unknown id, and no certificate to fall back to
    case SSL_R_NO_SHARED_CIPHER:
    case SSL_R_NO_CERTIFICATE_SET:
    case SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER:  // client: what it hears of those
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
    case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:
    case SSL_R_CERTIFICATE_VERIFY_FAILED:  // client: a server without our key showed a certificate
      return true;
    default:
      return false;
  }
}

Error tls_error(unsigned long openssl_error, const std::string& peer) {
  if (means_wrong_pool_key(openssl_error))
    return error(VP_DENIED, "wrong pool key: this machine and {} hold different keys; copy the key file of the pool",
                 peer);
  const char* reason = ERR_reason_error_string(openssl_error);
  return error(VP_FAILED, "tls with {} failed: {}", peer, reason != nullptr ? reason : "the connection broke");
}

namespace {

#ifdef MSG_MORE
constexpr int kMore = MSG_MORE;
#else
constexpr int kMore = 0;
#endif

// What the BIO callbacks need.
struct SocketIo {
  int fd = -1;
  bool more = false;     // the record that is written now is followed by another
  bool drained = false;  // the last recv() took all there was
  int io_errno = 0;
};

int bio_done(BIO* bio, SocketIo& io, ssize_t n, int retry_flag) {
  if (n >= 0) return static_cast<int>(n);
  io.io_errno = errno;
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)
    BIO_set_flags(bio, retry_flag | BIO_FLAGS_SHOULD_RETRY);
  return -1;
}

int bio_read(BIO* bio, char* into, int bytes) {
  auto& io = *static_cast<SocketIo*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  if (io.drained) {  // spare the system call that would only say EAGAIN
    BIO_set_flags(bio, BIO_FLAGS_READ | BIO_FLAGS_SHOULD_RETRY);
    return -1;
  }
  const ssize_t n = ::recv(io.fd, into, static_cast<std::size_t>(bytes), 0);
  io.drained = n > 0 && n < bytes;
  return bio_done(bio, io, n, BIO_FLAGS_READ);
}

int bio_write(BIO* bio, const char* from, int bytes) {
  auto& io = *static_cast<SocketIo*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  const ssize_t n = ::send(io.fd, from, static_cast<std::size_t>(bytes), kNoSignal | (io.more ? kMore : 0));
  return bio_done(bio, io, n, BIO_FLAGS_WRITE);
}

long bio_ctrl(BIO*, int what, long, void*) { return what == BIO_CTRL_FLUSH ? 1 : 0; }

BIO_METHOD* bio_method() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "vrampool socket");
    BIO_meth_set_read(m, bio_read);
    BIO_meth_set_write(m, bio_write);
    BIO_meth_set_ctrl(m, bio_ctrl);
    return m;
  }();
  return method;
}

}  // namespace

struct TlsSession::State {
  SocketIo io;
  unsigned long code = 0;  // of the last failure
  SSL* ssl = nullptr;
  ~State() { SSL_free(ssl); }
};

TlsSession::TlsSession(std::unique_ptr<State> state) : state_(std::move(state)) {}
TlsSession::TlsSession(TlsSession&&) noexcept = default;
TlsSession& TlsSession::operator=(TlsSession&&) noexcept = default;
TlsSession::~TlsSession() = default;

Result<TlsSession> TlsSession::create(const TlsContext& context, TlsSide side, int fd) {
  auto state = std::make_unique<State>();
  state->io.fd = fd;
  state->ssl = SSL_new(context.native());
  BIO* bio = state->ssl != nullptr ? BIO_new(bio_method()) : nullptr;
  if (bio == nullptr) return tls_error(ERR_get_error(), "this machine");
  BIO_set_data(bio, &state->io);
  BIO_set_init(bio, 1);
  SSL_set_bio(state->ssl, bio, bio);
  SSL_set_read_ahead(state->ssl, 1);
  SSL_set_default_read_buffer_len(state->ssl, kReadBufferBytes);
  side == TlsSide::client ? SSL_set_connect_state(state->ssl) : SSL_set_accept_state(state->ssl);
  return TlsSession(std::move(state));
}

TlsSession::Outcome TlsSession::classify(int returned) {
  switch (SSL_get_error(state_->ssl, returned)) {
    case SSL_ERROR_WANT_READ:
      return Outcome::want_read;
    case SSL_ERROR_WANT_WRITE:
      return Outcome::want_write;
    case SSL_ERROR_ZERO_RETURN:
      return Outcome::closed;
    default:
      break;
  }
  state_->code = ERR_peek_error();
  const bool hung_up = state_->code == 0 || ERR_GET_REASON(state_->code) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
  return hung_up && state_->io.io_errno == 0 ? Outcome::closed : Outcome::failed;
}

TlsSession::Outcome TlsSession::handshake() {
  ERR_clear_error();
  state_->io.io_errno = 0;
  state_->io.drained = false;
  const int n = SSL_do_handshake(state_->ssl);
  return n == 1 ? Outcome::done : classify(n);
}

TlsSession::Moved TlsSession::read(std::span<std::byte> into) {
  ERR_clear_error();
  state_->io.io_errno = 0;
  Moved moved;
  const int n = SSL_read_ex(state_->ssl, into.data(), into.size(), &moved.bytes);
  if (n == 1) return moved;
  moved = {classify(n), 0};
  if (moved.outcome == Outcome::want_read) state_->io.drained = false;  // the next event brings more
  return moved;
}

TlsSession::Moved TlsSession::write(std::span<const std::byte> from, bool more) {
  ERR_clear_error();
  state_->io.io_errno = 0;
  state_->io.more = more;
  Moved moved;
  const int n = SSL_write_ex(state_->ssl, from.data(), std::min(from.size(), kTlsRecordBytes), &moved.bytes);
  if (n != 1) moved = {classify(n), 0};
  return moved;
}

bool TlsSession::has_pending() const { return SSL_has_pending(state_->ssl) == 1; }

Error TlsSession::last_error(const std::string& peer) const {
  if (state_->code == 0 && state_->io.io_errno != 0) return error_errno(state_->io.io_errno, "connection to " + peer);
  return tls_error(state_->code, peer);
}

}  // namespace vrampool::transport
