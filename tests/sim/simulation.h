// One seed from storm to quiet: what operators, clients and bad luck do, then the demand that everything ends well.
#pragma once

#include "tests_sim/world.h"

namespace vrampool::sim {

struct SeedResult {
  std::string why;  // empty: all held
  std::uint64_t hash = 0;
  std::uint64_t unseed = 0;  // the next random number: a second run must end there too
  Counts counts;
};
SeedResult run_seed(std::uint64_t seed, bool trace);

class Simulation {
 public:
  Simulation(std::uint64_t seed, bool trace);
  SeedResult run();

 private:
  // simulation.cpp
  void set_up();
  void storm();
  void misfortune();
  void heal();
  bool healed();
  void demand();  // every node can do everything now
  bool demand_from(int n);
  // operators.cpp
  void act();
  void act_on_names(int n);
  void act_on_roster();
  void promote_somebody();
  void promote_by_force(int n);
  void admit_one();
  void forget_the_gone();
  void remove_leftovers();
  void recheck_abandoned();
  int random_running();
  int random_leased();
  std::string random_name();
  wire::RecordT new_record(int n, const std::string& name);
  SegmentId random_segment(int n, wire::SegmentState state);
  void seal(int n, const SegmentId&);
  std::optional<vp_status> wait(std::uint64_t op, std::int64_t limit_ms);
  bool due(std::int64_t every) { return every > 0 && world_.prng.below(static_cast<std::uint64_t>(every)) < 50; }

  World world_;
  std::uint64_t seed_ = 0;
  std::uint64_t unique_names_ = 0;
  std::size_t watched_ops_ = 0;
  std::int64_t leaderless_since_ = 0;
  int promotions_failed_ = 0;
};

}  // namespace vrampool::sim
