// PageTable: states, pins and counts, and that an untouched segment costs almost nothing.
#include "paging/page_table.h"

#include <doctest/doctest.h>

using namespace vrampool;
using namespace vrampool::paging;

TEST_CASE("pages start absent and counts follow every change") {
  PageTable t(10000);
  CHECK(t.count(PageState::absent) == 10000);
  t.set_state(PageIndex{5}, PageState::filling);
  t.set_state(PageIndex{5}, PageState::valid);
  t.set_state(PageIndex{9999}, PageState::poisoned);
  CHECK(t.state(PageIndex{5}) == PageState::valid);
  CHECK(t.count(PageState::valid) == 1);
  CHECK(t.count(PageState::filling) == 0);
  CHECK(t.count(PageState::absent) == 9998);
  CHECK(t.chunk_has(PageIndex{9000}, PageState::poisoned));
  CHECK_FALSE(t.chunk_has(PageIndex{0}, PageState::poisoned));
}

TEST_CASE("pins count per page and never go below zero") {
  PageTable t(100);
  t.pin(PageIndex{7});
  t.pin(PageIndex{7});
  CHECK(t.pinned() == 1);
  t.unpin(PageIndex{7});
  CHECK(t.pins(PageIndex{7}) == 1);
  t.unpin(PageIndex{7});
  t.unpin(PageIndex{7});
  CHECK(t.pins(PageIndex{7}) == 0);
  CHECK(t.pinned() == 0);
}

TEST_CASE("untouched ranges of a huge segment are skipped whole") {
  PageTable t(25'000'000);
  CHECK(t.skip_untouched(PageIndex{0}).value == 25'000'000);
  t.set_state(PageIndex{20'000'000}, PageState::valid);
  const auto next = t.skip_untouched(PageIndex{0});
  CHECK(next.value <= 20'000'000);
  CHECK(20'000'000 - next.value < kChunkPages);
}
