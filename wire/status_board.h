// The status board: a small mapped file that the daemon writes and anybody may read, also while the daemon hangs.
//
// Layout, little endian: magic, pid, sequence (odd while writing), boot-clock time of the last writing, life, length
// and crc32c of the JSON text that follows. Threads: one writer; readers retry until the sequence stood still.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"

namespace vrampool::wire {

inline constexpr std::size_t kBoardBytes = 64 * 1024;
inline constexpr std::size_t kBoardTextMax = kBoardBytes - 64;

struct BoardText {
  std::uint32_t pid = 0;
  Life life{};
  Instant updated{};  // platform::now() of the writer: an old one means that the daemon hangs or is dead
  std::string json;   // "schema": "vrampool/board/1"
};

// The board that belongs to a daemon's socket: "/run/vrampool/vrampoold.sock" has "/run/vrampool/vrampoold.board".
std::string board_path(const std::string& socket_path);

// REQUIRES: memory of kBoardBytes, 8-aligned (a mapping). A longer text is refused and changes nothing.
Status write_board(std::span<std::byte> memory, const BoardText& text);
// Errors: VP_CORRUPT for anything that is no board; VP_BUSY when the writer died in the middle.
Result<BoardText> read_board(std::span<const std::byte> memory);

}  // namespace vrampool::wire
