// vrampool demo: the whole thing on one machine, in a minute, with nothing left behind.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/limits.h"
#include "base/text.h"
#include "cli/daemon.h"
#include "cli/demo/client.h"
#include "cli/demo/cluster.h"
#include "cli/demo/model.h"
#include "cli/demo/spawn.h"
#include "cli/job.h"
#include "cli/measure.h"
#include "cli/verbs/verbs.h"
#include "platform/machine.h"

namespace vrampool::cli {
namespace {

constexpr std::uint64_t kModelBytes = 300'000'000;
constexpr std::uint64_t kSamples = 256;
constexpr std::uint64_t kSparseFootprintMax = 1ull << 30;
constexpr const char* kSegment = "demo";

Invocation at_node(const Invocation& in, const ClusterNode& node) {
  Invocation out = in;
  out.socket = node.socket;
  return out;
}

std::string seconds_text(double s) { return format_duration_ns(static_cast<std::int64_t>(s * 1e9)); }

// ---- a model: import, map on the last node, compare ----

Status import_model(const Invocation& in, const ClusterNode& node, const std::string& file) {
  VP_TRY(admin, daemon(at_node(in, node)));
  wire::ImportJobT request;
  request.paths = {file};
  request.name = kSegment;
  request.layout = wire::LayoutMode::file;
  request.placement = "spread";
  request.mode = 0644;
  VP_TRY(started, admin.ask<wire::JobStartedT>(std::move(request)));
  VP_TRY(code, follow_job(in, admin, started.job, "import", "imported the model"));
  return code == kFine ? Status() : Status(error(VP_FAILED, "the import failed"));
}

Status print_places(const Invocation& in, const ClusterNode& node) {
  VP_TRY(doc, ask(at_node(in, node), "inspect", {kSegment}));
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> places;
  for (const json::value& p : list_of(at(doc, "segment"), "pieces")) {
    auto& [pieces, bytes] = places[text_of(p, "node")];
    pieces += 1;
    bytes += number_of(p, "bytes");
  }
  Table table({"NODE", ">PIECES", ">SIZE"});
  for (const auto& [name, sum] : places) table.row({name, std::to_string(sum.first), format_bytes(sum.second)});
  fmt::print("\nwhere the model lives:\n");
  table.print(in);
  return {};
}

// What a node counted since it started.
struct Counted {
  std::uint64_t faults = 0, fetched = 0;
  std::string source;
};

Result<Counted> counted(const Invocation& in, const ClusterNode& node) {
  VP_TRY(doc, ask(at_node(in, node), "status"));
  const json::value& n = at(doc, "node");
  return Counted{number_of(n, "faults"), number_of(n, "pages_fetched"), text_of(n, "fault_source")};
}

// The same work done as barely as possible, in the same run: what the figures above are to be held against.
struct Bare {
  bench::Measured fault, stream;
};

Result<Bare> bare_sides(const Invocation& in, const ClusterNode& node) {
  VP_TRY(scene, bench_scene(at_node(in, node), true));
  bench::StreamOptionsBare o;
  o.tls = scene.tls;
  VP_TRY(stream, bench::bare_stream(o));
  auto fault = fault_and_trip(scene.tls);
  // Without userfaultfd there is nothing as bare; a round trip alone is the floor.
  bench::EchoOptions echo;
  echo.tls = scene.tls;
  if (!fault) fault = bench::bare_echo(echo);
  if (!fault) return fault.take_error();
  return Bare{std::move(*fault), std::move(stream)};
}

Status add_bare_rows(const Bare& bare, Table& table) {
  bench::Plan plan;
  plan.rounds = 3;
  plan.operations = 500;
  VP_TRY(fault, bench::compare({bare.fault}, plan));
  plan.operations = 256;
  VP_TRY(stream, bench::compare({bare.stream}, plan));
  table.row({fault.front().name + ", p50", format_duration_ns(static_cast<std::int64_t>(fault.front().p50_ns))});
  table.row({stream.front().name, format_rate(stream.front().bytes_per_second)});
  return {};
}

Status show_scan(const Invocation& in, const Cluster& cluster, const std::string& file) {
  const ClusterNode& last = cluster.nodes().back();
  // Before the SDK starts threads: each baseline forks a child.
  VP_TRY(bare, bare_sides(in, last));
  VP_TRY(before, counted(in, last));
  VP_TRY(f, scan_model(last.socket, kSegment, file));
  VP_TRY(after, counted(in, last));
  const std::uint64_t faults = std::min<std::uint64_t>(after.faults - before.faults, f.touch_ns.size());
  fmt::print("\na client of {} mapped {} and compared every byte with the file: all equal\n", last.name,
             plural(f.tensors, "tensor"));
  fmt::print("{} of {} pages faulted through {}; {} were fetched, most of them ahead of the reader\n\n", faults,
             f.pages, after.source, after.fetched - before.fetched);
  Table table({"WHAT", ">FIGURE"});
  if (faults > 0) {
    table.row({"touch of a page that was not here, p50", format_duration_ns(f.touch_ns[faults / 2])});
    table.row({"the same, p99", format_duration_ns(f.touch_ns[faults / 100])});
  }
  table.row({"front to back through a lazy map", format_rate(f.lazy_bytes_per_second)});
  table.row({"resident map of what is here by then", format_rate(f.resident_bytes_per_second)});
  VP_CHECK(add_bare_rows(bare, table));
  table.print(in);
  return {};
}

Status show_model(const Invocation& in, const Cluster& cluster) {
  std::string file = in.text("--model");
  if (file.empty()) {
    file = cluster.dir() + "/model.safetensors";
    VP_CHECK(write_demo_model(file, kModelBytes));
  }
  std::error_code failed;
  file = std::filesystem::canonical(file, failed).string();
  if (failed) return error(VP_NOT_FOUND, "{}: {}", in.text("--model"), failed.message());
  VP_CHECK(import_model(in, cluster.nodes().front(), file));
  VP_CHECK(print_places(in, cluster.nodes().front()));
  return show_scan(in, cluster, file);
}

// ---- a sparse pool ----

struct Footprint {
  std::uint64_t proportional = 0, page_tables = 0, shmem = 0;
};

Footprint footprint(const Cluster& cluster) {
  Footprint sum;
  for (const ClusterNode& node : cluster.nodes()) {
    const auto memory = platform::process_memory(node.pid);
    if (memory) sum.proportional += memory->proportional, sum.page_tables += memory->page_tables;
  }
  sum.shmem = platform::system_memory().shmem;
  return sum;
}

Status show_sparse(const Invocation& in, const Cluster& cluster) {
  const std::uint64_t bytes = in.bytes("--reserve", 0) / kPageBytes * kPageBytes;
  const Footprint before = footprint(cluster);
  VP_TRY(f, fill_sparse(cluster.nodes().front().socket, cluster.nodes().back().socket, kSegment, bytes, kSamples));
  const Footprint after = footprint(cluster);
  VP_CHECK(print_places(in, cluster.nodes().front()));
  const std::uint64_t grown = after.shmem > before.shmem ? after.shmem - before.shmem : 0;
  const std::uint64_t sum = after.proportional + after.page_tables + grown;
  fmt::print("\na segment of {} stands; {} pages all over it were written on {} and read back on {}\n",
             format_bytes(bytes), f.read_back, cluster.nodes().front().name, cluster.nodes().back().name);
  fmt::print("made in {}, written in {}, sealed in {}, read back in {}\n", seconds_text(f.create_seconds),
             seconds_text(f.write_seconds), seconds_text(f.seal_seconds), seconds_text(f.read_seconds));
  fmt::print("memory of {} daemons: {} proportional + {} page tables + {} shared memory = {}\n", cluster.nodes().size(),
             format_bytes(after.proportional), format_bytes(after.page_tables), format_bytes(grown), format_bytes(sum));
  if (sum >= kSparseFootprintMax) return error(VP_FAILED, "that is more than {}", format_bytes(kSparseFootprintMax));
  return {};
}

// ---- the frame ----

int show(const Invocation& in, const Cluster& cluster) {
  const Status shown = in.has("--reserve") ? show_sparse(in, cluster) : show_model(in, cluster);
  if (shown) return kFine;
  fmt::print(stderr, "vrampool: {}\n", shown.error().message);
  for (const std::string& line : cluster.last_words()) fmt::print(stderr, "  {}\n", line);
  return kFailed;
}

void say_how_to_reach(Cluster& cluster) {
  fmt::print("\nthe daemons go on; end them with SIGTERM and remove {}\n", cluster.dir());
  for (const ClusterNode& node : cluster.nodes()) {
    fmt::print("  {} (pid {}): VRAMPOOL_SOCKET={} vrampool status\n", node.name, node.pid, node.socket);
  }
  cluster.keep();
}

}  // namespace

Result<int> run_demo(const Invocation& in) {
  ClusterOptions options;
  options.nodes = static_cast<unsigned>(in.count("--nodes", 3));
  options.capacity_bytes = in.bytes("--capacity", 1ull << 30);
  options.overcommit = true;
  options.outlives = in.has("--keep");
  if (options.nodes < 1 || options.nodes > 16) return error(VP_INVALID, "--nodes must be 1 to 16");
  Cluster cluster;
  // Ctrl-C while daemons start must not end this process before it has tidied up.
  CatchInterrupt guard;
  VP_CHECK(cluster.start(options));
  VP_CHECK(cluster.form_pool());
  fmt::print("{} on loopback, each donating {}\n", plural(options.nodes, "daemon"),
             format_bytes(options.capacity_bytes));
  if (CatchInterrupt::happened()) return 130;
  VP_TRY(code, run_guarded([&] { return show(in, cluster); }));
  if (code == kFine && options.outlives) say_how_to_reach(cluster);
  cluster.stop();
  if (code == kFine && !options.outlives)
    fmt::print("\neverything is gone again: daemons, directories, shared memory\n");
  return code;
}

}  // namespace vrampool::cli
