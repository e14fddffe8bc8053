// Runs every scenario file twice: as it is it must hold, with its planted bug it must fail.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/mark.h"
#include "tests_sim/scenario.h"
#include "tests_sim/small_sims.h"

using namespace vrampool;

namespace {
std::vector<std::string> scenario_files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(VP_SCENARIOS))
    if (entry.path().extension() == ".txt") files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

template <class Run>
std::uint64_t first_failure(Run run, std::uint64_t seeds, int bug) {
  sim_hooks::planted_bug() = bug;
  std::uint64_t found = 0;
  for (std::uint64_t seed = 1; seed <= seeds && found == 0; ++seed)
    if (!run(seed).empty()) found = seed;
  sim_hooks::planted_bug() = 0;
  return found;
}
}  // namespace

TEST_CASE("every scenario holds, and fails with its planted bug") {
  const auto files = scenario_files();
  REQUIRE(files.size() >= 10);
  for (const std::string& file : files) {
    CAPTURE(file);
    sim_hooks::planted_bug() = 0;
    const auto result = sim::run_scenario(file);
    CHECK(result.why == "");
    if (result.bug == 0) continue;
    CAPTURE(result.bug);
    sim_hooks::planted_bug() = result.bug;
    CHECK(sim::run_scenario(file).why != "");
    sim_hooks::planted_bug() = 0;
  }
}

TEST_CASE("no late write changes a frozen piece, whatever the order of arrival") {
  CHECK(first_failure(sim::run_gate_seed, 2000, 0) == 0);
  for (const int bug : {30, 31, 32}) {
    CAPTURE(bug);
    CHECK(first_failure(sim::run_gate_seed, 200, bug) != 0);
  }
}

TEST_CASE("a request is executed once or its outcome is unknown") {
  CHECK(first_failure(sim::run_once_seed, 2000, 0) == 0);
  for (const int bug : {40, 41}) {
    CAPTURE(bug);
    CHECK(first_failure(sim::run_once_seed, 200, bug) != 0);
  }
}
