// The daemon's hand on the status board: a file beside the socket that anybody may map and read.
#pragma once

#include <span>
#include <string>

#include "base/unique_fd.h"
#include "wire/status_board.h"

namespace vrampool::service {

// Threads: control thread.
class Board {
 public:
  static Result<Board> create(const std::string& path);
  Board(Board&&) noexcept;
  Board& operator=(Board&&) = delete;
  ~Board();  // unmaps; the file stays, so that a person can see the last words of a dead daemon
  void write(const wire::BoardText& text);
  // A descriptor that can only read.
  UniqueFd reader() const;

 private:
  Board() = default;
  std::string path_;
  std::span<std::byte> memory_;
};

}  // namespace vrampool::service
