// Unix stream sockets: listen, connect, bytes with descriptors beside them, and who is on the other side.
//
// All sockets are non-blocking and close-on-exec. Writing to a closed one is an error, never SIGPIPE.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/fixed_vector.h"
#include "base/limits.h"
#include "base/result.h"
#include "base/time.h"
#include "base/unique_fd.h"

namespace vrampool::platform {

using DescriptorList = FixedVector<UniqueFd, kDescriptorsPerMessageMax>;

// sun_path: 104 bytes with its end mark on macOS, 108 on Linux; we hold to the smaller so that a configuration works on
// both.
inline constexpr std::size_t kSocketPathBytesMax = 103;
// VP_INVALID with the length and the limit when the path is too long or empty.
Status check_socket_path(const std::string& path);

// Binds and listens; `mode` is the file's permission. A stale file (nobody answers) is replaced; a live one is VP_BUSY.
Result<UniqueFd> listen_unix(const std::string& path, unsigned mode);
// The next waiting connection; an empty descriptor when none waits.
Result<UniqueFd> accept_unix(int listener);
// VP_UNREACHABLE when nobody listens there.
Result<UniqueFd> connect_unix(const std::string& path);
// Two connected ends.
Result<std::pair<UniqueFd, UniqueFd>> socket_pair();

// Sends bytes with up to kDescriptorsPerMessageMax borrowed descriptors beside the first byte. Returns bytes sent; 0
// when the socket is full now (nothing was sent, no descriptor either). VP_UNREACHABLE when the other side is gone.
Result<std::size_t> send_some(int fd, std::span<const std::byte> bytes, std::span<const int> descriptors = {});

struct Received {
  std::size_t bytes = 0;
  bool closed = false;       // the other side ended; no more will come
  bool would_block = false;  // nothing there now
};
// Receives bytes; descriptors that came beside them are appended to `descriptors` (close-on-exec set); those beyond its
// room are closed at once and the call fails with VP_INVALID: cut the peer off.
Result<Received> receive_some(int fd, std::span<std::byte> into, DescriptorList& descriptors);

// The same, waiting until all is sent or received, or the deadline. VP_TIMEOUT, VP_UNREACHABLE (closed).
// For clients and tests; never on the control or engine thread.
Status send_all(int fd, std::span<const std::byte> bytes, std::span<const int> descriptors, Duration timeout);
Status receive_all(int fd, std::span<std::byte> into, DescriptorList& descriptors, Duration timeout);

// Who opened the other end, as the kernel knows it.
struct PeerCredentials {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::int32_t pid = 0;  // 0 when unknown
};
Result<PeerCredentials> peer_credentials(int fd);

}  // namespace vrampool::platform
