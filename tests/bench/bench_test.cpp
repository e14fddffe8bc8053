// Baselines at tiny sizes, so that they cannot rot, and the arithmetic of the comparison. No figure is asserted.
#include <doctest/doctest.h>

#include <cstdlib>
#include <memory>

#include "bench/baselines.h"

using namespace vrampool;
using namespace vrampool::bench;

namespace {

// VP_BENCH=1 takes figures worth reading.
Plan plan(std::size_t operations) {
  if (std::getenv("VP_BENCH") != nullptr) return {9, operations, operations / 10};
  return {3, 20, 5};
}

Measured constant(std::string name, std::vector<std::uint64_t> rounds) {
  auto at = std::make_shared<std::size_t>(0);
  return {std::move(name), [rounds, at](std::size_t n) -> Result<Samples> {
            Samples s;
            s.ns.assign(n, rounds[(*at)++ % rounds.size()]);
            s.cpu_ns = static_cast<std::int64_t>(n) * 10;
            s.bytes_per_op = 100;
            return s;
          }};
}

void show(const std::vector<Measured>& sides, std::size_t operations = 4000) {
  const auto rows = compare(sides, plan(operations));
  REQUIRE_MESSAGE(rows.ok(), rows.error().message);
  REQUIRE(rows->size() == sides.size());
  for (const Summary& r : *rows) {
    CHECK(r.p50_ns > 0);
    CHECK(r.p99_ns >= r.p50_ns);
    CHECK(r.cpu_ns_per_op > 0);
    CHECK(r.bytes_per_second > 0);
  }
  MESSAGE("\n" << table(*rows));
}

}  // namespace

TEST_CASE("a comparison takes medians of rounds and of the rounds' quotients") {
  // A machine that gets slower: both sides follow, the quotient stays.
  const auto rows = compare({constant("base", {100, 200, 400}), constant("ours", {150, 300, 600})}, {3, 10, 0});
  REQUIRE(rows.ok());
  CHECK((*rows)[0].p50_ns == 200);
  CHECK((*rows)[1].p50_ns == 300);
  CHECK((*rows)[1].p50_ratio == doctest::Approx(1.5));
  CHECK((*rows)[1].rate_ratio == doctest::Approx(1 / 1.5));
  CHECK((*rows)[1].cpu_ratio == doctest::Approx(1));
  CHECK((*rows)[0].bytes_per_second == doctest::Approx(100 * 1e9 / 200));
  CHECK(table(*rows).find("ours") != std::string::npos);
}

TEST_CASE("an error of one side ends the comparison and names the side") {
  const Measured broken{"broken", [](std::size_t) -> Result<Samples> { return error(VP_FAILED, "no luck"); }};
  const auto rows = compare({constant("base", {1}), broken}, {1, 1, 0});
  REQUIRE_FALSE(rows.ok());
  CHECK(rows.error().message == "broken: no luck");
}

TEST_CASE("percentiles of few and of many samples") {
  std::vector<std::uint64_t> one{7}, none, many;
  for (std::uint64_t i = 0; i < 100; ++i) many.push_back(i);
  CHECK(percentile(none, 0.5) == 0);
  CHECK(percentile(one, 0.99) == 7);
  CHECK(percentile(many, 0.5) == 50);
  CHECK(percentile(many, 0.99) == 99);
}

TEST_CASE("plain page reads: bare, through one process, and through a data stream") {
  auto bare = bare_echo({}), relay = bare_echo({.relay = true}), ours = data_stream_echo({});
  REQUIRE(bare.ok());
  REQUIRE(relay.ok());
  REQUIRE(ours.ok());
  show({*bare, *relay, *ours});
}

TEST_CASE("page reads with TLS: bare OpenSSL and a data stream") {
  auto bare = bare_echo({.tls = true}), ours = data_stream_echo({.tls = true});
  REQUIRE(bare.ok());
  REQUIRE(ours.ok());
  show({*bare, *ours});
}

TEST_CASE("streams: bare and through a data stream, with crc and with TLS") {
  for (const bool tls : {false, true}) {
    auto bare = bare_stream({.tls = tls}), ours = data_stream_stream({.tls = tls});
    REQUIRE(bare.ok());
    REQUIRE(ours.ok());
    show({*bare, *ours}, 300);
  }
  auto plain = bare_stream({.block_bytes = 256u << 10, .crc_both_sides = false});
  REQUIRE(plain.ok());
  show({*plain}, 1000);
  auto best = best_bare_stream({}, 8u << 20);
  REQUIRE(best.ok());
  CHECK(best->run(3).ok());
}

TEST_CASE("own shared objects, front to back and at random") {
  for (const auto order : {ScanOrder::sequential, ScanOrder::random}) {
    auto scan = own_object_scan(8u << 20, order);
    REQUIRE(scan.ok());
    show({*scan});
  }
}

TEST_CASE("a bare page fault, where the system allows it") {
  auto fault = bare_fault(64);
  if (!fault) {
    CHECK(fault.error().code == VP_UNSUPPORTED);
    return;
  }
  show({*fault});
}
