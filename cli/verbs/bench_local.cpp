// vrampool bench local, alloc, idle: what crosses no network.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/limits.h"
#include "bench/alloc_bench.h"
#include "cli/daemon.h"
#include "cli/measure.h"
#include "cli/verbs/verbs.h"
#include "platform/clock.h"

namespace vrampool::cli {
namespace {

Result<int> daemon_pid(const Invocation& in) {
  VP_TRY(doc, ask(in, "status"));
  const auto pid = static_cast<int>(number_of(at(doc, "node"), "pid"));
  return pid > 0 ? Result<int>(pid) : Result<int>(error(VP_UNSUPPORTED, "this daemon does not say its process id"));
}

}  // namespace

Result<int> run_bench_local(const Invocation& in) {
  VP_TRY(scene, bench_scene(in, true));
  const std::uint64_t bytes = in.bytes("--bytes", 256 << 20) / kPageBytes * kPageBytes;
  VP_TRY(plain, bench::own_object_scan(bytes, bench::ScanOrder::sequential));
  return with_segment(in, scene.self, bytes, [&](const vp::Segment& segment) {
    const vp::View view = segment.map_range(0, bytes);
    bench::Plan plan;
    plan.operations = bytes >> 20;
    return compare_and_print(in, "bench.local",
                             {plain, bench::scan_memory("local sealed map", view.as(), bench::ScanOrder::sequential)},
                             plan);
  });
}

Result<int> run_bench_alloc(const Invocation& in) {
  bench::AllocBenchOptions options;
  options.pairs = in.count("--count", options.pairs);
  const auto figures = bench::run_alloc_bench(options);
  json::object doc = document("bench.alloc");
  json::array list;
  Table table({"WHAT", ">PAIRS/S", ">FILLED", ">CPU/PAIR"});
  for (const bench::AllocFigure& f : figures) {
    list.push_back(json::object{{"name", f.name},
                                {"pairs_per_second", f.pairs_per_second},
                                {"utilisation", f.utilisation},
                                {"cpu_ns_per_pair", f.cpu_ns_per_pair}});
    table.row({f.name, f.pairs_per_second > 0 ? fmt::format("{:.1f} M", f.pairs_per_second / 1e6) : "",
               f.utilisation > 0 ? fmt::format("{:.1f} %", f.utilisation * 100) : "",
               f.cpu_ns_per_pair > 0 ? fmt::format("{:.0f} ns", f.cpu_ns_per_pair) : ""});
  }
  if (in.json) {
    doc["figures"] = std::move(list);
    print_json(doc);
  } else {
    table.print(in);
  }
  return kFine;
}

Result<int> run_bench_idle(const Invocation& in) {
  VP_TRY(pid, daemon_pid(in));
  const auto seconds = static_cast<std::int64_t>(in.count("--seconds", 10));
  const Duration before = platform::process_cpu_time_of(pid);
  std::this_thread::sleep_for(std::chrono::seconds(seconds));
  const double used = (platform::process_cpu_time_of(pid) - before).as_seconds();
  const double share = used / static_cast<double>(std::max<std::int64_t>(seconds, 1));
  if (in.json) {
    json::object doc = document("bench.idle");
    doc["seconds"] = seconds;
    doc["share_of_one_core"] = share;
    print_json(doc);
  } else {
    fmt::print("vrampoold used {:.2f} % of one core over {} s\n", share * 100, seconds);
  }
  return kFine;
}

}  // namespace vrampool::cli
