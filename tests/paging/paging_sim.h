// A simulated owner of one FetchMachine: memory, views, client threads, two sources and a network that loses, doubles,
// delays, cuts and damages. One seed, one run; the same seed gives the same trace.
#pragma once

#include <cstdint>
#include <string>

namespace vrampool::paging::sim {

struct Outcome {
  std::string wrong;         // empty: every check held
  std::uint64_t trace = 0;   // hash of all inputs and orders
  std::uint64_t unseed = 0;  // the next random number: differs if the runs differed anywhere
  std::uint64_t events = 0;
  std::uint64_t loads = 0;
  std::uint64_t poison_loads = 0;
  std::uint64_t aborted = 0;
};

Outcome run(std::uint64_t seed);

}  // namespace vrampool::paging::sim
