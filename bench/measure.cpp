#include "bench/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/text.h"

namespace vrampool::bench {
namespace {

// One side's figures of one round.
struct Round {
  double p50 = 0, p90 = 0, p99 = 0, cpu = -1, rate = 0;
};

Round figures(Samples s) {
  Round r;
  const auto n = static_cast<double>(s.ns.size());
  const auto wall = std::accumulate(s.ns.begin(), s.ns.end(), 0.0);
  r.p50 = percentile(s.ns, 0.50);
  r.p90 = percentile(s.ns, 0.90);
  r.p99 = percentile(s.ns, 0.99);
  if (s.cpu_ns >= 0) r.cpu = static_cast<double>(s.cpu_ns) / n;
  if (s.bytes_per_op > 0 && wall > 0) r.rate = static_cast<double>(s.bytes_per_op) * n * 1e9 / wall;
  return r;
}

template <class Get>
double over_rounds(const std::vector<Round>& rounds, Get get) {
  std::vector<double> values;
  for (const Round& r : rounds) values.push_back(get(r));
  return median(std::move(values));
}

// The median of the rounds' quotients: what changed between two rounds cancels out.
template <class Get>
double ratio(const std::vector<Round>& ours, const std::vector<Round>& base, Get get) {
  std::vector<double> values;
  for (std::size_t i = 0; i < ours.size(); ++i)
    if (get(base[i]) > 0) values.push_back(get(ours[i]) / get(base[i]));
  return values.empty() ? 0 : median(std::move(values));
}

Summary summarize(const std::string& name, const std::vector<Round>& rounds, const std::vector<Round>& base,
                  std::uint64_t operations) {
  const auto p50 = [](const Round& r) { return r.p50; };
  const auto cpu = [](const Round& r) { return r.cpu; };
  const auto rate = [](const Round& r) { return r.rate; };
  Summary s;
  s.name = name;
  s.operations = operations;
  s.p50_ns = over_rounds(rounds, p50);
  s.p90_ns = over_rounds(rounds, [](const Round& r) { return r.p90; });
  s.p99_ns = over_rounds(rounds, [](const Round& r) { return r.p99; });
  s.cpu_ns_per_op = over_rounds(rounds, cpu);
  s.bytes_per_second = over_rounds(rounds, rate);
  s.p50_ratio = ratio(rounds, base, p50);
  s.cpu_ratio = ratio(rounds, base, cpu);
  s.rate_ratio = ratio(rounds, base, rate);
  return s;
}

}  // namespace

double percentile(std::vector<std::uint64_t>& ns, double share) {
  if (ns.empty()) return 0;
  const auto at = std::min(ns.size() - 1, static_cast<std::size_t>(share * static_cast<double>(ns.size())));
  std::nth_element(ns.begin(), ns.begin() + static_cast<std::ptrdiff_t>(at), ns.end());
  return static_cast<double>(ns[at]);
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Result<std::vector<Summary>> compare(const std::vector<Measured>& sides, const Plan& plan) {
  std::vector<std::vector<Round>> rounds(sides.size());
  for (const Measured& side : sides)
    if (plan.warm_up > 0) VP_CHECK(side.run(plan.warm_up));
  for (std::size_t i = 0; i < plan.rounds; ++i)
    for (std::size_t s = 0; s < sides.size(); ++s) {
      auto samples = sides[s].run(plan.operations);
      if (!samples) return error(samples.error().code, "{}: {}", sides[s].name, samples.error().message);
      rounds[s].push_back(figures(std::move(*samples)));
    }
  std::vector<Summary> rows;
  for (std::size_t s = 0; s < sides.size(); ++s)
    rows.push_back(summarize(sides[s].name, rounds[s], rounds[0], plan.rounds * plan.operations));
  return rows;
}

std::string table(const std::vector<Summary>& rows) {
  const auto time = [](double ns) {
    return ns < 0 ? std::string("-") : format_duration_ns(static_cast<std::int64_t>(ns));
  };
  std::size_t width = 0;
  for (const Summary& r : rows) width = std::max(width, r.name.size());
  std::string out = fmt::format("{:<{}} {:>9} {:>9} {:>11} {:>9} {:>7} {:>7} {:>7}\n", "", width, "p50", "p99", "rate",
                                "cpu/op", "p50 x", "rate x", "cpu x");
  for (const Summary& r : rows)
    out += fmt::format("{:<{}} {:>9} {:>9} {:>11} {:>9} {:>7.2f} {:>7.2f} {:>7.2f}\n", r.name, width, time(r.p50_ns),
                       time(r.p99_ns), r.bytes_per_second > 0 ? format_rate(r.bytes_per_second) : "-",
                       time(r.cpu_ns_per_op), r.p50_ratio, r.rate_ratio, r.cpu_ratio);
  return out;
}

}  // namespace vrampool::bench
