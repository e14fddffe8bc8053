// One connected control socket to the daemon: find it, attach, send and receive frames.
//
// Threads: one sender and one receiver at a time. Blocking: with deadlines. Errors: VP_UNREACHABLE, VP_TIMEOUT,
// VP_CORRUPT (a damaged frame: the link is of no further use).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "base/unique_fd.h"
#include "platform/unix_socket.h"
#include "wire/local_generated.h"

namespace vrampool::client {

inline constexpr std::uint16_t kLocalVersion = 1;
// LocalMessage counts them in one byte; more than kDescriptorsPerMessageMax travel beside several sends.
inline constexpr std::size_t kDescriptorsPerFrameMax = 255;

// Where a daemon may listen, in order: `chosen` alone if not empty, else $VRAMPOOL_SOCKET alone if set, else
// /run/vrampool/vrampoold.sock, $XDG_RUNTIME_DIR/vrampool/vrampoold.sock, ~/.vrampool/vrampoold.sock.
std::vector<std::string> socket_candidates(const std::string& chosen);
// The first that answers; `where`, if given, is told which. Errors: VP_UNREACHABLE with the places looked at and how to
// start a daemon; VP_DENIED.
Result<UniqueFd> connect_daemon(const std::vector<std::string>& candidates, std::string* where = nullptr);
// The program's own name, as far as the system tells.
std::string own_program_name();

// A received message with the descriptors that came beside it.
struct Envelope {
  std::uint64_t call = 0;
  wire::LocalBodyUnion body;
  std::vector<UniqueFd> descriptors;
};

class Link {
 public:
  explicit Link(UniqueFd socket) : socket_(std::move(socket)) {}
  static std::vector<std::byte> frame_of(const wire::LocalMessageT& message);
  Status send_frame(std::span<const std::byte> frame, std::span<const int> descriptors, Duration deadline) {
    return platform::send_all(socket_.get(), frame, descriptors, deadline);
  }
  Status send(std::uint64_t call, wire::LocalBodyUnion body, std::span<const int> descriptors, Duration deadline);
  // The next whole message. VP_TIMEOUT keeps what has arrived of it for the next call.
  Result<Envelope> receive(Duration deadline);
  int fd() const { return socket_.get(); }
  UniqueFd take() { return std::move(socket_); }

 private:
  Status fill(std::size_t wanted, Instant until);
  Result<Envelope> take_envelope(wire::LocalMessageT message);
  UniqueFd socket_;
  std::vector<std::byte> incoming_;
  std::vector<UniqueFd> arrived_;
};

// Sends Attach and waits for the answer. `reattach` with the old secret after a daemon restart.
Result<Envelope> attach(Link& link, const std::string& program, bool reattach, std::uint64_t secret, Duration deadline);
// A second connection, turned into the session's page or bulk data channel.
Result<UniqueFd> open_data(const std::string& path, const wire::AttachedT& session, bool bulk, Duration deadline);

// A body made of one request.
template <class T>
wire::LocalBodyUnion body_of(T request) {
  wire::LocalBodyUnion u;
  u.Set(std::move(request));
  return u;
}
// The error in `body` if it is a Done with a status other than VP_OK.
Status status_of(const wire::LocalBodyUnion& body);
// `body` as a `Reply`, or the error it carries; VP_CORRUPT when it is something else.
template <class Reply>
Result<Reply> expect(wire::LocalBodyUnion body) {
  VP_CHECK(status_of(body));
  constexpr auto kind = wire::LocalBodyUnionTraits<Reply>::enum_value;
  if (body.type != kind) {
    return error(VP_CORRUPT, "the daemon answered with {} where {} was due: is it of another version?",
                 wire::EnumNameLocalBody(body.type), wire::EnumNameLocalBody(kind));
  }
  return std::move(*static_cast<Reply*>(body.value));
}

}  // namespace vrampool::client
