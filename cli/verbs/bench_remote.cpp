// vrampool bench page-read, stream, fault, scan: reading from another node, beside bare sockets of the same run.
#include <fmt/format.h>

#include <algorithm>

#include "base/limits.h"
#include "cli/daemon.h"
#include "cli/measure.h"
#include "cli/verbs/verbs.h"

namespace vrampool::cli {
namespace {

constexpr std::uint64_t kRemoteBlockBytes = 1 << 20;
constexpr std::size_t kScanRounds = 3;
constexpr std::uint64_t kBytesPerTouch = 16 * kPageBytes;

// Rounds and operations such that all rounds together make about `count` operations.
bench::Plan plan_for(std::uint64_t count, std::size_t rounds = 5) {
  bench::Plan plan;
  plan.rounds = rounds;
  plan.operations = std::max<std::uint64_t>(count / rounds, 1);
  plan.warm_up = std::min<std::size_t>(plan.operations, 100);
  return plan;
}

// Engine to engine: the daemon reads pages of another daemon and says how long each took.
bench::Measured engine_reads(const Invocation& in, const std::string& peer) {
  return {"16 KiB page, engine to engine", [in, peer](std::size_t n) -> Result<bench::Samples> {
            VP_TRY(doc, ask(in, "bench", {"page-read", peer}, {{"count", n}, {"bytes", kPageBytes}, {"echo", true}}));
            bench::Samples s;
            for (const json::value& v : list_of(doc, "ns")) s.ns.push_back(v.to_number<std::uint64_t>());
            s.cpu_ns = static_cast<std::int64_t>(number_of(doc, "cpu_ns"));
            s.bytes_per_op = kPageBytes;
            return s;
          }};
}

}  // namespace

// The baselines come first everywhere: each forks a child, which must happen before the SDK starts threads.

Result<int> run_bench_page_read(const Invocation& in) {
  VP_TRY(scene, bench_scene(in));
  bench::EchoOptions o;
  o.tls = scene.tls;
  VP_TRY(bare, bench::bare_echo(o));
  o.relay = true;
  VP_TRY(relayed, bench::bare_echo(o));
  const bench::Plan plan = plan_for(in.count("--count", 10'000));
  if (!in.json) fmt::print("reading from {}, {}\n", scene.peer, scene.tls ? "TLS" : "plain TCP");
  VP_TRY(engine, compare_and_print(in, "bench.page-read", {bare, engine_reads(in, scene.peer)}, plan));
  if (in.json) return engine;
  return with_segment(in, scene.peer, 64 << 20, [&](const vp::Segment& segment) {
    fmt::print("\n");
    return compare_and_print(in, "bench.page-read", {relayed, client_reads(segment)}, plan);
  });
}

Result<int> run_bench_stream(const Invocation& in) {
  VP_TRY(scene, bench_scene(in));
  const std::uint64_t bytes =
      std::max<std::uint64_t>(in.bytes("--bytes", 256 << 20) / kRemoteBlockBytes, 1) * kRemoteBlockBytes;
  bench::StreamOptionsBare o;
  o.tls = scene.tls;
  VP_TRY(bare, bench::best_bare_stream(o));
  return with_segment(in, scene.peer, bytes, [&](const vp::Segment& segment) {
    return compare_and_print(in, "bench.stream", {bare, client_stream(segment)},
                             plan_for(5 * bytes / kRemoteBlockBytes));
  });
}

Result<int> run_bench_fault(const Invocation& in) {
  VP_TRY(scene, bench_scene(in));
  const bench::Plan plan = plan_for(in.count("--count", 2000));
  VP_TRY(bare, fault_and_trip(scene.tls));
  const std::uint64_t touches = plan.rounds * plan.operations + plan.warm_up;
  return with_segment(in, scene.peer, touches * kBytesPerTouch, [&](const vp::Segment& segment) {
    return compare_and_print(in, "bench.fault", {bare, first_touches(segment)}, plan);
  });
}

Result<int> run_bench_scan(const Invocation& in) {
  VP_TRY(scene, bench_scene(in));
  bench::Plan plan =
      plan_for(std::max<std::uint64_t>(in.bytes("--bytes", 256 << 20) / kRemoteBlockBytes, kScanRounds), kScanRounds);
  plan.warm_up = 0;  // a page is read for the first time once
  const std::uint64_t bytes = plan.rounds * plan.operations * kRemoteBlockBytes;
  return with_segment(in, scene.peer, bytes, [&](const vp::Segment& segment) {
    return compare_and_print(in, "bench.scan", {client_stream(segment), lazy_scan(segment)}, plan);
  });
}

}  // namespace vrampool::cli
