// Reads the status board that lies beside the daemon's socket; works while the daemon hangs.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "client/admin.h"

namespace vrampool::client {

namespace {

constexpr int kBoardTriesMax = 16;

Result<wire::BoardText> read_once(int fd) {
  std::vector<std::uint64_t> words(wire::kBoardBytes / 8);  // aligned as a mapping would be
  const ssize_t n = ::pread(fd, words.data(), wire::kBoardBytes, 0);
  if (n < 0) return error_errno(errno, "reading the status board");
  return wire::read_board(std::as_bytes(std::span(words)));
}

// The writer may be in the middle of it: look again, as often as a dead writer deserves.
Result<wire::BoardText> read_patiently(int fd) {
  auto text = read_once(fd);
  for (int i = 1; i < kBoardTriesMax && !text; ++i) {
    ::usleep(1000);
    text = read_once(fd);
  }
  return text;
}

}  // namespace

Result<wire::BoardText> read_status_board(const std::string& socket_path) {
  std::string looked;
  for (const std::string& socket : socket_candidates(socket_path)) {
    const std::string path = wire::board_path(socket);
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (fd) return read_patiently(fd.get());
    looked += (looked.empty() ? "" : ", ") + path;
  }
  return error(VP_NOT_FOUND, "no status board on this machine (looked at {}): no daemon has run here", looked);
}

}  // namespace vrampool::client
