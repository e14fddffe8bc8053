// A whole pool in one thread: machines, their disks, their clocks, the network between them, and what goes wrong.
// Time jumps from event to event; everything random comes from one seed.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "membership/machine.h"
#include "membership/quorum.h"
#include "membership/reconcile.h"
#include "tests_sim/prng.h"

namespace vrampool::sim {

namespace ms = vrampool::membership;

// Units: milliseconds and percent. Drawn from the seed, so that each seed is another weather; a scenario sets its own.
struct Climate {
  int nodes = 3;
  std::int64_t detection = 3000;
  std::int64_t delay_mean = 2;
  unsigned loss = 0, duplicates = 0, stragglers = 0;
  std::int64_t disk_delay = 2;  // at most
  unsigned disk_stalls = 0;     // percent of orders that take up to 800 ms
  std::int64_t cut_every = 0, crash_every = 0, pause_every = 0, suspend_every = 0, disk_loss_every = 0;  // 0: never
  std::int64_t act_every = 250;  // operators and clients
  std::int64_t promote_every = 0, roster_every = 0, force_every = 0;
  int drift_ppm = 500;
};
Climate climate_of(Prng&);

struct Op {
  int node = 0;
  Life life{};
  std::uint64_t no = 0;
  ms::Command command;
  std::int64_t issued = 0;
  std::optional<ms::CommandDone> done;
  bool lost = false;  // the node died before it ended
};

// What the all-knowing observer remembers of a segment.
struct Known {
  std::set<std::string> names;
  bool created = false, sealed = false, removed = false;  // acknowledged
  bool may_go = false;                                    // a removal, or a seal under one of its names, was asked for
  bool may_be_sealed = false;
  bool seen = false;  // by anybody
};

struct Node {
  NodeId id{};
  std::string machine;
  Life life{};
  Incarnation incarnation{};
  ms::DurableState disk;
  std::optional<ms::Machine> m;
  bool wants_to_join = true;  // has no membership
  bool abandoned = false;     // named in a forced promotion: what it does no longer counts
  bool gone = false;          // switched off for good
  std::int64_t paused_until = 0;
  std::int64_t boots_at = -1;  // down: when it starts again; -1: not by itself
  std::int64_t clock_offset = 0, clock_ppm = 0, slept = 0;
  std::int64_t disk_free_at = 0;
  bool disk_stopped = false;  // orders do not end, and a crash loses them
  std::deque<ms::Persist> writing;
  std::map<PieceId, Incarnation> pieces;  // shared memory: survives the daemon
  std::map<PieceId, std::int64_t> found;
  Epoch highest_epoch{};
  std::uint64_t commands = 0;
  std::int64_t host_tick = 0;
};

struct Counts {
  std::uint64_t events = 0, messages = 0, lost = 0, crashes = 0, pauses = 0, cuts = 0, deaths = 0, terms = 0, acked = 0,
                unknown = 0, refused = 0;
  void add(const Counts& o) {
    events += o.events, messages += o.messages, lost += o.lost, crashes += o.crashes, pauses += o.pauses,
        cuts += o.cuts;
    deaths += o.deaths, terms += o.terms, acked += o.acked, unknown += o.unknown, refused += o.refused;
  }
};

class World {
 public:
  World(Climate climate, std::uint64_t seed, bool trace);

  // world.cpp: nodes and time.
  int add_node();
  void boot(int n);
  void crash(int n, bool reboot, std::int64_t back_after);  // back_after -1: stays down
  void lose_disk(int n);
  void pause(int n, std::int64_t for_ms, bool suspend);
  std::uint64_t command(int n, decltype(ms::Command::what) what);  // index into ops
  void run_for(std::int64_t ms);
  template <class Predicate>
  bool run_until(Predicate&& done, std::int64_t limit_ms) {
    const std::int64_t end = now_ + limit_ms;
    while (ok() && now_ < end) {
      if (done()) return true;
      turn();
    }
    return ok() && done();
  }
  std::int64_t now() const { return now_; }
  Instant local(const Node&) const;
  bool runs(int n) const { return nodes[static_cast<std::size_t>(n)].m.has_value(); }
  bool leased(int n) const;
  int node_of(MemberNo) const;                         // by the number on its disk; -1: nobody
  int coordinator() const;                             // the node that leads with a lease; -1: nobody
  bool adopt(int n, const ms::CommandDone& admitted);  // stores the membership and boots

  // network.cpp
  void cut(int from, int to) { cuts_.insert({from, to}); }
  void mend(int from, int to) { cuts_.erase({from, to}); }
  void mend_all() { cuts_.clear(); }
  bool is_cut(int from, int to) const { return cuts_.contains({from, to}); }
  // A scenario may hold back what one node sends to another and let it go later.
  void hold(int from, int to) { holds_.insert({from, to}); }
  void release(int from, int to);

  // host.cpp: what the service around a machine does.
  void host_tick(int n);
  void make_pieces(int n, const wire::RecordT&);

  // checks.cpp
  void fail(const std::string& why);
  bool ok() const { return why_.empty(); }
  const std::string& why() const { return why_; }
  void check_quiet();  // when everything is healed: all agree, nothing is left over
  void forgive();      // a forced promotion: what was acknowledged before may be lost

  void note(const std::string& line);
  void mix(std::uint64_t value);
  std::uint64_t hash() const { return hash_; }

  Climate climate;
  Prng prng;
  bool calm = false;  // no faults from the network or disks
  bool host_makes_pieces = true;
  std::vector<Node> nodes;
  std::vector<Op> ops;
  std::map<SegmentId, Known> segments;
  Counts counts;

 private:
  struct Event {
    std::int64_t at = 0;
    std::uint64_t seq = 0;
    int node = 0;
    std::uint64_t boot = 0;  // of the node: a tick or an order of an earlier process is void
    enum class Kind : std::uint8_t { tick, message, persisted, boot } kind = Kind::tick;
    std::shared_ptr<wire::MembershipMessageT> message;
  };
  struct Later {
    bool operator()(const Event& a, const Event& b) const { return a.at != b.at ? a.at > b.at : a.seq > b.seq; }
  };

  void turn();
  void handle(const Event&);
  void schedule(Event);
  void step(int n, const ms::Input&);
  void take(int n, ms::Outbox);
  void on_output(int n, ms::Send&);
  void on_output(int n, ms::Persist&);
  void on_output(int n, ms::ViewChanged&);
  void on_output(int n, ms::RecordApplied&);
  void on_output(int n, ms::RecordErased&);
  void on_output(int n, ms::RosterChanged&);
  void on_output(int n, ms::CommandDone&);
  void on_output(int n, ms::LeaseGained&);
  void on_output(int n, ms::LeaseLost&);
  void on_output(int n, ms::BecameCoordinator&);
  void on_output(int n, ms::Deposed&);
  void on_output(int n, ms::MustRestart&);
  void write_done(int n);
  void wipe(int n);
  int receiver_of(int from, MemberNo to) const;
  void deliver_later(int to, std::shared_ptr<wire::MembershipMessageT> message);
  void settle_pieces(int n);
  void acknowledge(const Op&);
  void check_fencing();
  void check_one_coordinator();
  void check_registry(int n);
  void check_acknowledged(int n);
  void check_record(int n, const wire::RecordT&);

  std::int64_t now_ = 0;
  std::uint64_t seq_ = 0;
  std::uint64_t hash_ = 1469598103934665603ull;
  bool trace_ = false;
  std::string why_;
  std::priority_queue<Event, std::vector<Event>, Later> events_;
  std::map<int, std::uint64_t> boots_;
  std::set<std::pair<int, int>> cuts_, holds_;
  std::map<std::pair<int, int>, std::vector<std::shared_ptr<wire::MembershipMessageT>>> held_;
  std::map<std::pair<int, std::pair<std::uint64_t, std::uint64_t>>, std::size_t> op_index_;  // (node, (life, no))
  // Seen so far, by everybody.
  std::map<Epoch, std::uint64_t> views_;  // hash of each view
  struct Death {
    Life life{};
    Epoch told_in{};
  };
  std::map<MemberNo, Death> deaths_;  // the highest life that a view declared over
  std::map<MemberNo, NodeId> numbers_;
  std::map<std::pair<SegmentId, RecordVersion>, std::uint64_t> record_hashes_;
  std::map<std::uint64_t, std::pair<std::uint64_t, SegmentId>> addresses_;  // begin -> (end, whose)
};

std::string describe(const ms::Command&);
std::uint64_t hash_of(const wire::ViewT&);
std::uint64_t hash_of(const wire::RecordT&);

}  // namespace vrampool::sim
