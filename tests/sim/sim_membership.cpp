// sim_membership --seeds N --first S [--trace] [--marks] [--want-marks FILE] [--bug K | --bugs K,K,...]
// Runs seeds and prints counts. With --want-marks every mark named in the file must have been reached. With --bug(s)
// each planted bug must be found within the seeds.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/mark.h"
#include "tests_sim/simulation.h"
#include "tests_sim/small_sims.h"

using namespace vrampool;

namespace {
std::uint64_t g_seed = 0;

void on_abort(int) {
  std::fprintf(stderr, "assertion under seed %llu\n", static_cast<unsigned long long>(g_seed));
  std::_Exit(3);
}

struct Arguments {
  std::uint64_t seeds = 1000, first = 1;
  std::vector<int> bugs;
  bool trace = false, marks = false;
  std::string wanted_marks;
};

Arguments parse(int argc, char** argv) {
  Arguments a;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const std::string value = i + 1 < argc ? argv[i + 1] : "";
    if (flag == "--seeds") a.seeds = std::strtoull(value.c_str(), nullptr, 10);
    if (flag == "--first") a.first = std::strtoull(value.c_str(), nullptr, 10);
    if (flag == "--want-marks") a.wanted_marks = value;
    if (flag == "--trace") a.trace = true;
    if (flag == "--marks") a.marks = true;
    if (flag != "--bug" && flag != "--bugs") continue;
    std::stringstream numbers(value);
    for (std::string number; std::getline(numbers, number, ',');) a.bugs.push_back(std::atoi(number.c_str()));
  }
  return a;
}

// The two small simulations ride along.
sim::SeedResult run(std::uint64_t seed, bool trace) {
  sim::SeedResult result = sim::run_seed(seed, trace);
  if (result.why.empty()) result.why = sim::run_gate_seed(seed);
  if (result.why.empty()) result.why = sim::run_once_seed(seed);
  return result;
}

bool is_deterministic(std::uint64_t seed, const sim::SeedResult& first) {
  const sim::SeedResult again = run(seed, false);
  return again.hash == first.hash && again.unseed == first.unseed;
}

unsigned long long n(std::uint64_t v) { return v; }

// The first seed that finds the bug.
bool find_bug(const Arguments& a, int bug) {
  sim_hooks::planted_bug() = bug;
  for (g_seed = a.first; g_seed < a.first + a.seeds; ++g_seed) {
    const sim::SeedResult result = run(g_seed, a.trace);
    if (result.why.empty()) continue;
    std::printf("bug %d found by seed %llu: %s\n", bug, n(g_seed), result.why.c_str());
    std::fflush(stdout);
    return true;
  }
  std::printf("bug %d was not found in %llu seeds\n", bug, n(a.seeds));
  return false;
}

int find_bugs(const Arguments& a) {
  int missed = 0;
  for (const int bug : a.bugs) missed += find_bug(a, bug) ? 0 : 1;
  return missed == 0 ? 0 : 1;
}

int check_marks(const std::string& path) {
  std::ifstream file(path);
  int missed = 0, wanted = 0;
  for (std::string name; std::getline(file, name);) {
    if (name.empty()) continue;
    ++wanted;
    if (sim_hooks::marks().contains(name)) continue;
    ++missed;
    std::printf("mark %s was never reached\n", name.c_str());
  }
  std::printf("marks %d missed %d\n", wanted, missed);
  return missed == 0 && wanted > 0 ? 0 : 1;
}

int run_seeds(const Arguments& a) {
  sim::Counts t;
  std::uint64_t failed = 0;
  for (g_seed = a.first; g_seed < a.first + a.seeds; ++g_seed) {
    const sim::SeedResult result = run(g_seed, a.trace);
    t.add(result.counts);
    if (g_seed % 50 == 0 && !a.trace && !is_deterministic(g_seed, result)) {
      std::printf("seed %llu is not deterministic\n", n(g_seed));
      return 2;
    }
    if (result.why.empty()) continue;
    ++failed;
    std::printf("seed %llu failed: %s\n", n(g_seed), result.why.c_str());
    std::fflush(stdout);
  }
  std::printf(
      "seeds %llu failed %llu events %llu messages %llu lost %llu crashes %llu pauses %llu cuts %llu deaths %llu terms "
      "%llu\n",
      n(a.seeds), n(failed), n(t.events), n(t.messages), n(t.lost), n(t.crashes), n(t.pauses), n(t.cuts), n(t.deaths),
      n(t.terms));
  std::printf("commands done %llu refused %llu unknown %llu\n", n(t.acked), n(t.refused), n(t.unknown));
  return failed == 0 ? 0 : 1;
}
}  // namespace

int main(int argc, char** argv) {
  const Arguments a = parse(argc, argv);
  std::signal(SIGABRT, on_abort);
  if (!a.bugs.empty()) return find_bugs(a);
  int code = run_seeds(a);
  if (a.marks)
    for (const auto& [name, count] : sim_hooks::marks()) std::printf("mark %s %llu\n", name.c_str(), n(count));
  if (!a.wanted_marks.empty() && code == 0) code = check_marks(a.wanted_marks);
  return code;
}
