// Late, doubled and reordered writes against the gate; lost answers and a home that restarts against the reply cache.
#include "tests_sim/small_sims.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <vector>

#include "membership/reply_cache.h"
#include "membership/write_gate.h"
#include "tests_sim/prng.h"

namespace vrampool::sim {

namespace ms = vrampool::membership;

namespace {

constexpr std::size_t kPages = 4;
constexpr std::uint64_t kToken = 77;

// A write travels by two rails; its body needs time to arrive after it was let in.
struct Write {
  std::uint64_t no = 0;
  std::size_t page = 0;
  unsigned value = 0;
  std::uint64_t token = kToken;
};

struct GateWorld {
  explicit GateWorld(std::uint64_t seed) : prng{seed} {}
  Prng prng;
  ms::WriteGate gate{kToken, 8};
  Sender writer{MemberNo{2}, Life{3}};
  std::array<unsigned, kPages> bytes{};
  std::array<unsigned, kPages> frozen_bytes{};
  bool frozen = false, reused = false;
  std::vector<Write> travelling, landing;
  std::map<std::uint64_t, Write> acknowledged, open;
  std::uint64_t next = 0;
  std::string why;

  ms::WriteTag tag(const Write& w) const { return {writer, RequestNo{w.no}, w.token}; }

  void send() {
    if (open.size() >= 4) return;
    Write w{++next, static_cast<std::size_t>(prng.below(kPages)), static_cast<unsigned>(next), kToken};
    // A writer has one write per page open: what order would two have?
    for (const auto& [no, other] : open)
      if (other.page == w.page) return;
    open[w.no] = w;
    travelling.push_back(w);
    if (prng.chance(50)) travelling.push_back(w);
  }
  void resend() {
    if (open.empty()) return;
    auto at = open.begin();
    std::advance(at, static_cast<long>(prng.below(open.size())));
    travelling.push_back(at->second);
  }
  void arrive() {
    if (travelling.empty()) return;
    const std::size_t i = prng.below(travelling.size());
    const Write w = travelling[i];
    travelling.erase(travelling.begin() + static_cast<long>(i));
    if (prng.chance(10)) return;  // lost
    switch (gate.begin(tag(w))) {
      case ms::WriteVerdict::apply:
        landing.push_back(w);
        break;
      case ms::WriteVerdict::already:
        open.erase(w.no);
        break;
      default:
        break;
    }
  }
  void land() {
    if (landing.empty()) return;
    const std::size_t i = prng.below(landing.size());
    const Write w = landing[i];
    landing.erase(landing.begin() + static_cast<long>(i));
    const bool whole = !prng.chance(10);
    if (whole) {
      if (reused) why = "a write landed in memory that belongs to somebody else";
      bytes[w.page] = w.value;
      acknowledged[w.no] = w;
      open.erase(w.no);
    }
    gate.end(tag(w), whole);
  }
  void check() {
    const bool now = gate.state() == ms::GateState::frozen || gate.state() == ms::GateState::closed;
    if (now && !frozen) frozen_bytes = bytes;
    frozen = frozen || now;
    if (frozen && bytes != frozen_bytes) why = "a frozen piece changed";
    std::array<std::uint64_t, kPages> last{};
    for (const auto& [no, w] : acknowledged) last[w.page] = std::max<std::uint64_t>(last[w.page], w.value);
    for (std::size_t p = 0; p < kPages; ++p)
      if (last[p] != bytes[p]) why = "an older write came over a newer one";
  }
};

}  // namespace

std::string run_gate_seed(std::uint64_t seed) {
  GateWorld world(seed);
  const std::uint64_t freeze_at = 20 + world.prng.below(100);
  const bool reclaim = world.prng.chance(40);
  for (std::uint64_t step = 0; step < 220 && world.why.empty(); ++step) {
    switch (world.prng.below(5)) {
      case 0:
        if (step < freeze_at) world.send();
        break;
      case 1:
        world.resend();
        break;
      case 2:
        world.land();
        break;
      default:
        world.arrive();
    }
    if (step == freeze_at) world.gate.freeze(kToken);
    if (step > freeze_at + 20 && reclaim && world.gate.close()) world.reused = true;
    if (world.gate.begin({world.writer, RequestNo{1'000'000}, kToken + 1}) != ms::WriteVerdict::denied)
      world.why = "a write with a foreign token was let in";
    world.check();
  }
  return world.why;
}

namespace {

struct Add {
  std::uint64_t no = 0;
  std::uint64_t done_up_to = 0;
  Life addressed_to{};
};
struct Reply {
  std::uint64_t no = 0;
  bool unknown = false;
};

// An asker adds one, again and again; the home may restart between execution and answer. The counter survives it.
struct OnceWorld {
  explicit OnceWorld(std::uint64_t seed) : prng{seed} {}
  Prng prng;
  Life home_life{5};
  ms::ReplyCache cache{Life{5}, 4};
  Sender asker{MemberNo{3}, Life{3}};
  std::uint64_t counter = 0, acknowledged = 0, unknown = 0, next = 0;
  std::map<std::uint64_t, Life> open;  // request -> the home's life that it was first sent to
  std::vector<Add> to_home;
  std::vector<Reply> to_asker;

  std::uint64_t done_up_to() const { return open.empty() ? next : open.begin()->first - 1; }
  void ask() {
    if (open.size() < 4 && next + 1 <= done_up_to() + 4) {
      open[++next] = home_life;
      to_home.push_back({next, done_up_to(), home_life});
    }
  }
  void again() {
    if (open.empty()) return;
    auto at = open.begin();
    std::advance(at, static_cast<long>(prng.below(open.size())));
    to_home.push_back({at->first, done_up_to(), at->second});
  }
  template <class T>
  T take(std::vector<T>& from) {
    const std::size_t i = prng.below(from.size());
    T value = from[i];
    if (!prng.chance(20)) from.erase(from.begin() + static_cast<long>(i));  // else it comes once more
    return value;
  }
  void home() {
    if (to_home.empty()) return;
    const Add add = take(to_home);
    const auto verdict = cache.begin({asker, RequestNo{add.no}, RequestNo{add.done_up_to}, add.addressed_to});
    if (verdict == ms::OnceVerdict::execute) {
      ++counter;
      cache.finish(asker, RequestNo{add.no}, {std::byte{1}});
    }
    if (verdict == ms::OnceVerdict::refused || verdict == ms::OnceVerdict::in_progress || prng.chance(20)) return;
    to_asker.push_back({add.no, verdict == ms::OnceVerdict::unknown});
  }
  void answer() {
    if (to_asker.empty()) return;
    const Reply reply = take(to_asker);
    if (open.erase(reply.no) == 0) return;
    (reply.unknown ? unknown : acknowledged) += 1;
  }
  void restart() {
    ++home_life.value;
    cache = ms::ReplyCache(home_life, 4);
  }
  std::string check() const {
    if (counter < acknowledged) return "an addition was acknowledged and not done";
    if (counter > acknowledged + unknown + open.size())
      return fmt::format("{} additions were done for {} acknowledged", counter, acknowledged);
    if (cache.kept() > 4) return "the reply cache grew beyond its window";
    return {};
  }
};

}  // namespace

std::string run_once_seed(std::uint64_t seed) {
  OnceWorld world(seed);
  std::string why;
  for (int step = 0; step < 300 && why.empty(); ++step) {
    switch (world.prng.below(6)) {
      case 0:
        world.ask();
        break;
      case 1:
        world.again();
        break;
      case 2:
      case 3:
        world.home();
        break;
      default:
        world.answer();
    }
    if (world.prng.chance(1)) world.restart();
    why = world.check();
  }
  return why;
}

}  // namespace vrampool::sim
