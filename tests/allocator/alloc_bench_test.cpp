// The benchmark runs with tiny sizes; only what does not depend on the machine is checked.
#include "bench/alloc_bench.h"

#include <doctest/doctest.h>

TEST_CASE("the allocator benchmark runs and reaches its utilisation") {
  const auto figures = vrampool::bench::run_alloc_bench({.pairs = 20'000, .seed = 3});
  CHECK(figures.size() == 6);
  for (const auto& f : figures) {
    CAPTURE(f.name);
    if (f.utilisation != 0)
      CHECK(f.utilisation >= 0.96);
    else
      CHECK(f.pairs_per_second > 0);
  }
}
