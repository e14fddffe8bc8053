// The connection of one loop to one peer: opened with a ticket when first wanted, opened again with back-off, and a
// table of requests that wait for answers on it.
#pragma once

#include <array>
#include <deque>
#include <span>
#include <vector>

#include "service/data/link.h"
#include "service/data/node.h"

namespace vrampool::service::data {

// Who gets the answer of a request. Calls come on the loop's thread; ask() may be called from inside.
class Asker {
 public:
  virtual ~Asker() = default;
  // A `data` answer is about to land. An empty span: into the link's own scratch.
  virtual std::span<std::byte> landing(std::uint64_t cookie) {
    (void)cookie;
    return {};
  }
  // data, write_ok, pong or failure. Sizes and place were checked against the request, the crc was not.
  virtual void answered(std::uint64_t cookie, const transport::Incoming&) = 0;
  // No answer will come: the connection broke, or the deadline passed.
  virtual void unanswered(std::uint64_t cookie, const Error&) = 0;
};

struct Ask {
  wire::DataHeader header;            // kind, request, segment, place; source, destination and epoch are filled in
  std::span<const std::byte> side{};  // copied
  std::span<const std::byte> body{};  // borrowed until the answer
  Asker* asker = nullptr;
  std::uint64_t cookie = 0;
  Instant deadline{};  // 0: the asker watches its own
};

// Requests in flight on one link, by number. Fixed size, no allocation.
class PendingTable {
 public:
  static constexpr std::size_t kPendingMax = 512;
  struct Entry {
    RequestNo request{};  // 0: free
    Asker* asker = nullptr;
    std::uint64_t cookie = 0;
    Instant deadline{};
    wire::DataKind kind{};
    SegmentId segment{};
    std::uint64_t offset = 0;
    std::uint32_t length = 0;
    bool sent = false;
  };
  bool full() const { return used_ == kPendingMax; }
  std::size_t size() const { return used_; }
  Entry* find(RequestNo);
  Entry& insert(RequestNo);  // REQUIRES: not full, not there
  void erase(RequestNo);
  template <class F>
  void each(F f) {
    for (Entry& e : slots_)
      if (e.request.value != 0) f(e);
  }

 private:
  static constexpr std::size_t kSlots = kPendingMax * 2;
  static std::size_t start(RequestNo r) { return r.value * 0x9e3779b97f4a7c15ull >> 54; }
  static_assert(kSlots == 1024, "start() takes the upper ten bits");
  std::array<Entry, kSlots> slots_{};
  std::size_t used_ = 0;
};

// Threads: the loop's.
class PeerLink final : public Link {
 public:
  PeerLink(DataLoop& loop, Peer peer, bool bulk);

  const Peer& to() const { return peer_; }
  // Sends now, or as soon as the connection stands. Errors: VP_UNREACHABLE (it failed a moment ago), VP_BUSY (too many
  // in flight); then nothing more is heard of it.
  Status ask(const Ask&);
  // The answer is no longer wanted: from here on none of its bytes lands.
  void forget(RequestNo);
  // Starts connecting if it is not connected.
  void dial();
  // Ends all: the peer's life ended.
  void retire(const Error& why);
  // Deadlines and back-off; the next wanted moment.
  Instant tick(Instant now);

 private:
  enum class Phase : std::uint8_t { idle, asking_ticket, greeting, open, resting };
  struct Deferred {
    Ask ask;
    std::array<std::byte, transport::kSideBytesMax> side;
  };

  std::span<std::byte> on_header(transport::DataStream&, const wire::DataHeader&) override;
  void on_open(transport::DataStream&) override;
  void on_message(transport::DataStream&, const transport::Incoming&) override;
  void on_closed(transport::DataStream&, const Error& why) override;
  bool push(const Ask&);
  std::span<std::byte> landing_of(const PendingTable::Entry&);
  void connect(std::uint64_t dial_no, Result<wire::Ticket> ticket);
  Status open_stream(const wire::Ticket&);
  void failed(const Error& why);
  void fail_all(const Error& why);
  PendingTable::Entry* expected(const wire::DataHeader&);

  Peer peer_;
  bool bulk_;
  Phase phase_ = Phase::idle;
  std::uint64_t dial_no_ = 0;
  Instant phase_deadline_{};
  Duration rest_{};
  bool complained_ = false;
  bool retired_ = false;
  PendingTable pending_;
  std::vector<Deferred> deferred_;
  Buffer scratch_;
};

}  // namespace vrampool::service::data
