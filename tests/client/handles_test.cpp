// Handles that notice misuse, and the runs that a map is made of.
#include "client/handles.h"

#include <doctest/doctest.h>

#include "client/mapping.h"

using namespace vrampool;
using namespace vrampool::client;

TEST_CASE("a closed handle is an error, also after its slot was used again") {
  HandleTable<int> table(HandleKind::view, 4);
  const auto first = *table.add(std::make_shared<int>(1));
  CHECK(**table.find(first) == 1);
  REQUIRE(table.take(first).ok());
  CHECK(table.find(first).error().code == VP_INVALID);
  CHECK(table.take(first).error().code == VP_INVALID);
  const auto second = *table.add(std::make_shared<int>(2));
  CHECK(second != first);
  CHECK(table.find(first).error().code == VP_INVALID);
  CHECK(**table.find(second) == 2);
}

TEST_CASE("a handle of another kind, zero and garbage are errors") {
  HandleTable<int> views(HandleKind::view, 4), tokens(HandleKind::token, 4);
  const auto view = *views.add(std::make_shared<int>(1));
  REQUIRE(tokens.add(std::make_shared<int>(1)).ok());
  CHECK_FALSE(tokens.find(view).ok());
  CHECK_FALSE(views.find(0).ok());
  CHECK_FALSE(views.find(~0ull).ok());
  CHECK_FALSE(views.find(view + 1).ok());
}

TEST_CASE("a table refuses more than its most, and takes again after a close") {
  HandleTable<int> table(HandleKind::segment, 2);
  const auto a = *table.add(std::make_shared<int>(1));
  REQUIRE(table.add(std::make_shared<int>(2)).ok());
  CHECK(table.add(std::make_shared<int>(3)).error().code == VP_NO_SPACE);
  REQUIRE(table.take(a).ok());
  CHECK(table.add(std::make_shared<int>(3)).ok());
}

TEST_CASE("an object found outlives the close of its handle") {
  HandleTable<int> table(HandleKind::segment, 2);
  const auto id = *table.add(std::make_shared<int>(5));
  const auto held = *table.find(id);
  REQUIRE(table.take(id).ok());
  CHECK(*held == 5);
}

TEST_CASE("resident runs hold each span's pages and nothing between them") {
  const auto runs = runs_of({{100000, 10}, {0, 5}, {16384, 1}}, false, 16384);
  REQUIRE(runs.size() == 2);
  CHECK(runs[0].offset == 0);
  CHECK(runs[0].bytes == 32768);
  CHECK(runs[1].offset == 98304);
  CHECK(runs[1].bytes == 16384);
}

TEST_CASE("a lazy map is one run from the first to the last page") {
  const auto runs = runs_of({{100000, 10}, {40000, 5}}, true, 16384);
  REQUIRE(runs.size() == 1);
  CHECK(runs[0].offset == 32768);
  CHECK(runs[0].bytes == 114688 - 32768);
}
