// A small daemon and real client processes for the fault-source tests: the same tests run for every source.
//
// The daemon is the test's own thread: it owns the pages' states, so that fill, reveal and punch of a page exclude each
// other. Clients are forked before anything else runs; what they report goes through a board in shared memory and their
// exit status.
#pragma once

#include <doctest/doctest.h>

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "base/limits.h"
#include "platform/client_view.h"
#include "platform/clock.h"
#include "platform/poller.h"
#include "platform/unix_socket.h"
#include "platform/view_faults.h"
#include "temp_store.h"

namespace vrampool::platform::testing {

// ThreadSanitizer delays asynchronous signals to its own calls, and does not support waiting inside a signal handler.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitizer = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif
#else
inline constexpr bool kThreadSanitizer = false;
#endif

inline constexpr Duration kPatience = Duration::seconds(20);
inline constexpr std::size_t kWordsPerPage = kPageBytes / 8;

// Races run for this long, and on a busy machine on until they have done enough to mean something.
class RaceClock {
 public:
  explicit RaceClock(Duration wanted) : end_(now() + wanted) {}
  bool goes_on(bool enough) const { return now() < end_ || (!enough && now() < end_ + kPatience); }

 private:
  Instant end_;
};

// What the sources under test are; those that this machine lacks are named in a message.
void for_each_source(const std::function<void(FaultSourceKind)>& body);
// The exit status, 128 + signal when killed.
int exit_of(pid_t pid);

// Shared by the daemon and all its clients; zero at birth.
struct Board {
  std::array<std::atomic<std::uint64_t>, 64> value;
  std::array<std::atomic<std::uint64_t>, 1024> floor;  // generations of a page below this one are stale
};

// Generation g of page p, word i.
inline std::uint64_t pattern(std::uint64_t page, std::uint64_t generation, std::uint64_t word) {
  return ((page + 1) << 48) | ((generation & 0xffffffff) << 16) | (word & 0xffff);
}
inline std::uint64_t generation_of(std::uint64_t value) { return (value >> 16) & 0xffffffff; }
inline bool is_of(std::uint64_t value, std::uint64_t page, std::uint64_t word) {
  return value >> 48 == page + 1 && (value & 0xffff) == word;
}

// Inside a client process. `CLIENT_CHECK` ends it with the line number (mod 256, never 0).
class ClientSide {
 public:
  ClientSide(ClientViewOptions options, Board& board, int socket, int object_fd);
  ClientView& view() { return *view_; }
  Board& board() { return board_; }
  const volatile std::uint64_t* words(std::uint64_t page) const {
    return reinterpret_cast<const volatile std::uint64_t*>(view_->base() + page * kPageBytes);
  }
  volatile std::uint64_t* writable(std::uint64_t page) const {
    return reinterpret_cast<volatile std::uint64_t*>(view_->base() + page * kPageBytes);
  }
  bool page_is(std::uint64_t page, std::uint64_t generation) const;
  void attach();                                  // sends the view's descriptors, again after a daemon's death
  void wait_for(int index, std::uint64_t value);  // until board.value[index] >= value
  void end_view() { view_.reset(); }

 private:
  Board& board_;
  int socket_;
  std::unique_ptr<ClientView> view_;
};
#define CLIENT_CHECK(cond)                      \
  do {                                          \
    if (!(cond)) ::_exit((__LINE__ % 255) + 1); \
  } while (false)

struct PageRecord {
  bool valid = false;
  bool evicting = false;
  std::uint64_t generation = 0;
  std::vector<std::size_t> revoking;                  // clients that have not answered yet
  std::vector<std::pair<std::size_t, bool>> waiting;  // client, write
};

class TestDaemon {
 public:
  using Body = std::function<int(ClientSide&)>;
  TestDaemon(FaultSourceKind kind, std::uint64_t pages, PageAccess access = PageAccess::read);
  ~TestDaemon();
  TestDaemon(const TestDaemon&) = delete;
  TestDaemon& operator=(const TestDaemon&) = delete;

  // Forks a client that maps all pages as cache, attaches, and runs `body`; returns its number. `deadline`: of posix
  // faults.
  std::size_t spawn(const Body& body, Duration deadline = {});
  // Receives the client's descriptors (the first time and after every reattach).
  void attach(std::size_t client);

  // Serves until `done` holds; false when it took longer than kPatience.
  bool serve_until(const std::function<bool()>& done);
  void serve_once(Duration timeout);
  // Serves until the client ends; its exit status.
  int finish(std::size_t client);
  // The daemon dies: all its copies of descriptors close.
  void die();

  void fill(std::uint64_t page);
  void fill_part(std::uint64_t page, std::uint64_t generation, std::size_t first_word, std::size_t words);
  Revealed reveal(std::size_t client, std::uint64_t page, std::uint64_t pages = 1,
                  PageAccess access = PageAccess::read);
  // Starts taking the page away from everyone; done when pages[page].evicting is false again.
  void evict(std::uint64_t page);

  FaultSourceKind kind;
  std::uint64_t page_count;
  PageAccess access;
  TempStore store;
  SharedObject object;
  Board* board;
  std::vector<PageRecord> pages;
  struct ClientRecord {
    pid_t pid = -1;
    UniqueFd socket;
    std::unique_ptr<ViewFaults> faults;
    bool reaped = false;
    int status = -1;
  };
  std::deque<ClientRecord> clients;
  std::uint64_t faults_seen = 0;
  std::uint64_t revokes_seen = 0;
  std::uint64_t gone_seen = 0;
  // When set, a fault goes here first; true means that it was dealt with.
  std::function<bool(std::size_t client, const ViewEvent&)> on_fault;
  std::function<void(const ViewEvent&)> on_revoked;

 private:
  void handle(std::size_t client, const ViewEvent& event);
  void revoke_answered(std::size_t client, std::uint64_t page);
  void answer(std::size_t client, std::uint64_t page, bool write);
  void finish_eviction(std::uint64_t page);
  void drain(std::size_t client);
  bool ended(std::size_t client);
  Poller poller_;
};

}  // namespace vrampool::platform::testing
