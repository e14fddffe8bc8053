// How figures are taken: samples of named operations, interleaved runs, medians, and CPU time beside every latency.
//
// Threads: one. Blocking: as long as the operations take. Units: nanoseconds; rates in bytes per second.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace vrampool::bench {

// What one run of `n` operations took. cpu_ns: of every process that took part, over all n; below 0: not known.
struct Samples {
  std::vector<std::uint64_t> ns;  // per operation
  std::int64_t cpu_ns = 0;
  std::uint64_t bytes_per_op = 0;  // 0: the operation moves no bytes worth a rate
};

// Something that can be measured: a baseline from baselines.h, or a side of vrampool that the caller plugs in.
struct Measured {
  std::string name;
  std::function<Result<Samples>(std::size_t n)> run;
};

struct Summary {
  std::string name;
  std::uint64_t operations = 0;
  double p50_ns = 0, p90_ns = 0, p99_ns = 0;  // medians over rounds of the round's percentile
  double cpu_ns_per_op = -1;                  // median over rounds; below 0: not known
  double bytes_per_second = 0;                // median over rounds, wall time; 0: no rate
  // Against the first of the comparison: medians over rounds of the round's quotient. 1 for the first itself.
  double p50_ratio = 1, rate_ratio = 1, cpu_ratio = 1;
};

struct Plan {
  std::size_t rounds = 7;         // odd, so that a median is a measurement
  std::size_t operations = 2000;  // per round and side
  std::size_t warm_up = 100;
};

// Runs A B C A B C ... so that a machine that speeds up or slows down does so for all. The first is the baseline.
// Errors: the first error of any side ends it.
Result<std::vector<Summary>> compare(const std::vector<Measured>& sides, const Plan& plan);

// Lines for a terminal: name, p50, p99, rate, CPU per operation, ratios.
std::string table(const std::vector<Summary>& rows);

double percentile(std::vector<std::uint64_t>& ns, double share);
double median(std::vector<double> values);

}  // namespace vrampool::bench
