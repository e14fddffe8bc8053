// A rail pair in memory, for tests and simulators: no sockets, no clock; every loss, delay, double, cut and damage is
// drawn from a seed. The same seed and the same calls give the same course.
//
// Threads: one. Time: deliver(now) hands out what is due.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/time.h"
#include "transport/rail.h"

namespace vrampool::transport::fake {

struct Trouble {
  double loss = 0;  // chances per message
  double doubled = 0;
  double damaged = 0;  // one byte of the body is changed
  double cut = 0;      // half of the body lands, the message never completes, the link goes down
  Duration delay_min = Duration::micros(20);
  Duration delay_max = Duration::micros(200);  // unequal delays reorder
  std::uint32_t credits = 64;                  // messages under way per direction
};

struct LinkStats {
  std::uint64_t sent = 0, delivered = 0, lost = 0, doubled = 0, damaged = 0, cut = 0, discarded = 0;
};

class FakeLink {
 public:
  FakeLink(std::uint64_t seed, Trouble trouble, RailHandler& left, RailHandler& right);
  ~FakeLink();

  Rail& left();
  Rail& right();
  // Delivers everything due at `now`; false: nothing is under way.
  bool deliver(Instant now);
  // When the next delivery is due; Instant max: never.
  Instant next() const;
  // Both ends see the rail go down; what is under way is gone.
  void sever();
  void set_trouble(const Trouble& trouble) { trouble_ = trouble; }
  const LinkStats& stats() const { return stats_; }

 private:
  class End;
  struct Flying {
    wire::DataHeader header;
    std::vector<std::byte> side, body;
    std::size_t to = 0;
    bool cut = false;
  };
  std::uint64_t random();
  bool chance(double p);
  bool launch(std::size_t from, const Outgoing&);
  void land(Flying&);

  std::uint64_t seed_;
  Trouble trouble_;
  LinkStats stats_;
  Instant now_{};
  std::uint64_t order_ = 0;
  std::map<std::pair<Instant, std::uint64_t>, Flying> flying_;
  std::array<std::unique_ptr<End>, 2> ends_;
};

}  // namespace vrampool::transport::fake
