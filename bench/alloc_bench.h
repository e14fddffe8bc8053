// Figures of the allocators, for `vrampool bench alloc` and for the test that keeps them from rotting.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace vrampool::bench {

struct AllocFigure {
  std::string name;
  double pairs_per_second = 0;  // allocate + free; 0 where only the utilisation counts
  double utilisation = 0;       // used / arena when the first request failed; 0 where only the rate counts
  double cpu_ns_per_pair = 0;   // of all threads together
};

struct AllocBenchOptions {
  std::uint64_t pairs = 2'000'000;
  std::uint64_t seed = 1;
};

// Threads: starts one more for the cross-thread figure and joins it. Blocking: some seconds with the default options.
// The same seed makes the same requests. Budgets: small allocator 2 M pairs/s at 90 % fill after churn and 96 %
// utilisation on odd sizes; client heap 10 M pairs/s per thread.
std::vector<AllocFigure> run_alloc_bench(const AllocBenchOptions& options = {});

}  // namespace vrampool::bench
