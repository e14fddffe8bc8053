// A data plane in memory: pieces of all members of a test's pool lie in one Medium, so that bytes need no network.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>

#include "service/data_plane.h"
#include "service/node.h"

namespace vrampool::service {

// Threads: any. Outlives the daemons that use it; what a daemon left in it is adopted by the next.
struct Medium {
  struct Piece {
    std::vector<std::byte> bytes;
    std::uint64_t offset = 0, token = 0;
    PieceState state = PieceState::creating;
    Incarnation incarnation{};
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::map<MemberNo, std::map<PieceId, Piece>> nodes;
  bool hold_writes = false;  // writes wait until this is false or their channel is cancelled
  std::size_t writes_held = 0;
  std::atomic<std::size_t> clients_gone{0};

  std::size_t pieces();
  void hold(bool on);
  StartDataPlane starter();
};

}  // namespace vrampool::service
