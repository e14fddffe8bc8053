// The status board is read whole or not at all.
#include "wire/status_board.h"

#include <doctest/doctest.h>

#include <vector>

using namespace vrampool;

TEST_CASE("a board gives back what was written, and refuses what is no board") {
  std::vector<std::uint64_t> memory(wire::kBoardBytes / 8);
  const auto bytes = std::as_writable_bytes(std::span(memory));
  CHECK_FALSE(wire::read_board(bytes).ok());
  REQUIRE(wire::write_board(bytes, {42, Life{7}, Instant{99}, "{\"a\":1}"}).ok());
  const auto read = wire::read_board(bytes);
  REQUIRE(read.ok());
  CHECK(read->pid == 42);
  CHECK(read->life == Life{7});
  CHECK(read->updated == Instant{99});
  CHECK(read->json == "{\"a\":1}");
  CHECK_FALSE(wire::write_board(bytes, {1, Life{1}, Instant{1}, std::string(wire::kBoardBytes, 'x')}).ok());
}

TEST_CASE("a writer that died in the middle is noticed") {
  std::vector<std::uint64_t> memory(wire::kBoardBytes / 8);
  const auto bytes = std::as_writable_bytes(std::span(memory));
  REQUIRE(wire::write_board(bytes, {1, Life{1}, Instant{1}, "{}"}).ok());
  memory[1] |= 1;
  const auto read = wire::read_board(bytes);
  REQUIRE_FALSE(read.ok());
  CHECK(read.error().code == VP_BUSY);
}

TEST_CASE("the board lies beside the socket") {
  CHECK(wire::board_path("/run/vrampool/vrampoold.sock") == "/run/vrampool/vrampoold.board");
  CHECK(wire::board_path("/run/a.b/socket") == "/run/a.b/socket.board");
}
