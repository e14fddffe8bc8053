// What every sender of this room agrees on: the TLS record size and no SIGPIPE.
#pragma once

#include <sys/socket.h>

#include <cstddef>

namespace vrampool::transport {

// A page is exactly one record (RFC 8446 section 5.1 allows 2^14 bytes).
inline constexpr std::size_t kTlsRecordBytes = 16 * 1024;

#ifdef MSG_NOSIGNAL
inline constexpr int kNoSignal = MSG_NOSIGNAL;
#else
inline constexpr int kNoSignal = 0;  // macOS: SO_NOSIGPIPE is set on the socket
#endif

}  // namespace vrampool::transport
