// The fetch machine in bad weather: many seeds hold, rare states are reached, planted bugs are found.
#include "paging_sim.h"

#include <doctest/doctest.h>

#include <cstdlib>

#include "base/mark.h"

using namespace vrampool;
using namespace vrampool::paging::sim;

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kSeeds = 8;  // slow there; the plain build looks for rare states
#else
constexpr std::uint64_t kSeeds = 60;
#endif
constexpr std::uint64_t kSeedsForMarks = 60;

// VP_SEEDS=100000 for the night.
std::uint64_t seeds() {
  const char* text = std::getenv("VP_SEEDS");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : kSeeds;
}

}  // namespace

TEST_CASE("in every seed all loads return sealed bytes, nothing is fetched twice and every wait ends") {
  sim_hooks::marks().clear();
  std::uint64_t loads = 0, poisoned = 0, aborted = 0;
  for (std::uint64_t seed = 1; seed <= seeds(); ++seed) {
    const Outcome o = run(seed);
    REQUIRE_MESSAGE(o.wrong.empty(), "seed ", seed, ": ", o.wrong);
    loads += o.loads;
    poisoned += o.poison_loads;
    aborted += o.aborted;
  }
  if (seeds() < kSeedsForMarks) return;
  CHECK(loads > 10000);
  CHECK(poisoned > 0);
  CHECK(aborted > 0);
  for (const char* mark : {"answer_doubled",
                           "answer_late",
                           "answer_partial",
                           "answer_corrupt",
                           "failure_late",
                           "failure_retried",
                           "request_expired",
                           "source_lost_in_flight",
                           "fault_on_filling",
                           "fault_on_evicting",
                           "abandoned_pages_punched",
                           "reader_revealed",
                           "read_ahead_asked",
                           "read_ahead_step",
                           "read_ahead_reset",
                           "waiting_view_heals",
                           "waiting_view_waits_on",
                           "view_aborted",
                           "gave_up_while_filling",
                           "page_poisoned",
                           "want_ended",
                           "want_timed_out",
                           "want_lost_pages",
                           "evict_met_pin",
                           "evict_second_chance",
                           "evicted",
                           "page_healed",
                           "outbox_resumed"})
    CHECK_MESSAGE(sim_hooks::marks()[mark] > 0, mark, " was never reached");
}

TEST_CASE("the same seed gives the same trace") {
  for (const std::uint64_t seed : {3u, 17u, 40u}) {
    const Outcome a = run(seed), b = run(seed);
    CHECK(a.trace == b.trace);
    CHECK(a.unseed == b.unseed);
  }
}

TEST_CASE("every planted bug is found") {
  for (int bug = 101; bug <= 113; ++bug) {
    sim_hooks::planted_bug() = bug;
    std::uint64_t seed = 0;
    std::string wrong;
    while (wrong.empty() && seed < 200) wrong = run(++seed).wrong;
    sim_hooks::planted_bug() = 0;
    CHECK_MESSAGE(!wrong.empty(), "planted bug ", bug, " was not found in ", seed, " seeds");
    MESSAGE("bug ", bug, " found by seed ", seed, ": ", wrong);
  }
}
