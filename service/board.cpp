// Mapping the board.
#include "service/board.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "base/log.h"

namespace vrampool::service {

Result<Board> Board::create(const std::string& path) {
  // A new file each time: who still maps the old one must not see it change owners.
  ::unlink(path.c_str());
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!fd) return error_errno(errno, path);
  if (::fchmod(fd.get(), 0644) != 0 || ::ftruncate(fd.get(), wire::kBoardBytes) != 0) return error_errno(errno, path);
  void* at = ::mmap(nullptr, wire::kBoardBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (at == MAP_FAILED) return error_errno(errno, path);
  Board board;
  board.path_ = path;
  board.memory_ = {static_cast<std::byte*>(at), wire::kBoardBytes};
  return board;
}

Board::Board(Board&& o) noexcept : path_(std::move(o.path_)), memory_(std::exchange(o.memory_, {})) {}

Board::~Board() {
  if (!memory_.empty()) ::munmap(memory_.data(), memory_.size());
}

void Board::write(const wire::BoardText& text) {
  if (const Status written = wire::write_board(memory_, text); !written) log::warn("{}", written.error().message);
}

UniqueFd Board::reader() const { return UniqueFd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)); }

}  // namespace vrampool::service
