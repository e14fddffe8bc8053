// A fetch that a mover carries out for the engine: many pages at once, or a copy from a piece of this node.
#pragma once

#include <atomic>
#include <memory>

#include "service/data/cache_object.h"
#include "service/data/peer_link.h"

namespace vrampool::service::data {

class DataLoop;

// Whether its bytes may still land is settled by one word: the mover takes it from `current` to `landing`, the engine
// to `dropped`; who comes second stands back. A drop that meets a landing waits for its end (at most one message's
// copy), so that no byte lands after drop() returned.
// Threads: the engine and one mover. Ownership: keeps itself while an answer is awaited.
class Flight final : public Asker, public std::enable_shared_from_this<Flight> {
 public:
  struct Report {
    RequestNo request{};
    PageIndex first{};
    std::uint32_t good = 0;     // pages from the front that landed
    std::uint32_t corrupt = 0;  // pages after those whose bytes were damaged
    vp_status status = VP_OK;   // what ended it, if not all pages are accounted for
  };
  using Deliver = std::function<void(const Report&)>;  // called on the mover; posts to the engine

  Flight(CachePtr cache, RequestNo request, PageIndex first, std::uint32_t count, MemberNo home, Deliver deliver)
      : cache_(std::move(cache)),
        deliver_(std::move(deliver)),
        home_(home),
        request_(request),
        first_(first),
        count_(count) {}

  // Mover: asks the home, or copies when the home is this node.
  void take_off(DataLoop& mover);
  // Mover: forgets the request on its connection.
  void forget(DataLoop& mover);
  // Engine: nothing of it lands any more.
  void drop();

 private:
  enum class State : std::uint8_t { current, landing, landed, dropped };
  void answered(std::uint64_t, const transport::Incoming&) override;
  void unanswered(std::uint64_t, const Error&) override;
  void copy_local(DataLoop&);
  bool begin_landing();
  void end(Report report);
  Report report() const { return {request_, first_, 0, 0, VP_OK}; }

  CachePtr cache_;
  Deliver deliver_;
  MemberNo home_;
  RequestNo request_;
  PageIndex first_;
  std::uint32_t count_;
  DataLoop* mover_ = nullptr;
  std::atomic<State> state_{State::current};
  std::shared_ptr<Flight> self_;
};

// Copies whole pages of a piece of this node into a cache. VP_NOT_FOUND, VP_BUSY, VP_NO_SPACE.
Status copy_from_piece(DataLoop&, CacheObject&, PageIndex first, std::uint32_t count);

}  // namespace vrampool::service::data
