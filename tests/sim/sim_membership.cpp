// sim_membership --seeds N --first S [--bug K] [--trace] [--marks]: runs seeds and prints counts; with --bug it wants a failure.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/mark.h"
#include "tests_sim/simulation.h"

using namespace vrampool;

namespace {
std::uint64_t g_seed = 0;

void on_abort(int) {
  std::fprintf(stderr, "assertion under seed %llu\n", static_cast<unsigned long long>(g_seed));
  std::_Exit(sim_hooks::planted_bug() != 0 ? 0 : 3);
}

struct Arguments {
  std::uint64_t seeds = 1000, first = 1;
  int bug = 0;
  bool trace = false, marks = false;
};

Arguments parse(int argc, char** argv) {
  Arguments a;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const auto number = [&] { return i + 1 < argc ? std::strtoull(argv[++i], nullptr, 10) : 0ull; };
    if (flag == "--seeds") a.seeds = number();
    if (flag == "--first") a.first = number();
    if (flag == "--bug") a.bug = static_cast<int>(number());
    if (flag == "--trace") a.trace = true;
    if (flag == "--marks") a.marks = true;
  }
  return a;
}
}  // namespace

int main(int argc, char** argv) {
  const Arguments a = parse(argc, argv);
  std::signal(SIGABRT, on_abort);
  sim_hooks::planted_bug() = a.bug;
  sim::Counts total;
  std::uint64_t failed = 0;
  for (g_seed = a.first; g_seed < a.first + a.seeds; ++g_seed) {
    const sim::SeedResult result = sim::run_seed(g_seed, a.trace);
    total.add(result.counts);
    if (g_seed % 50 == 0 && !a.trace) {
      const sim::SeedResult again = sim::run_seed(g_seed, false);
      if (again.hash != result.hash || again.unseed != result.unseed) {
        std::printf("seed %llu is not deterministic\n", static_cast<unsigned long long>(g_seed));
        return 2;
      }
    }
    if (result.why.empty()) continue;
    ++failed;
    std::printf("seed %llu failed: %s\n", static_cast<unsigned long long>(g_seed), result.why.c_str());
    std::fflush(stdout);
    if (a.bug != 0) break;
  }
  const auto n = [](std::uint64_t v) { return static_cast<unsigned long long>(v); };
  std::printf("seeds %llu failed %llu events %llu messages %llu lost %llu crashes %llu pauses %llu cuts %llu deaths %llu terms %llu done %llu refused %llu unknown %llu\n",
              n(g_seed - a.first), n(failed), n(total.events), n(total.messages), n(total.lost), n(total.crashes), n(total.pauses), n(total.cuts),
              n(total.deaths), n(total.terms), n(total.acked), n(total.refused), n(total.unknown));
  if (a.marks)
    for (const auto& [name, count] : sim_hooks::marks()) std::printf("mark %s %llu\n", name.c_str(), n(count));
  if (a.bug != 0) return failed != 0 ? 0 : 1;
  return failed != 0 ? 1 : 0;
}
