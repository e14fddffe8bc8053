// vrampool status: this node, its pool and what is wrong.
#include <fmt/format.h>

#include "base/text.h"
#include "cli/daemon.h"
#include "cli/verbs/verbs.h"
#include "cli/views.h"

namespace vrampool::cli {
namespace {

std::string nanoseconds(const json::value& v, std::string_view name) {
  const auto ns = static_cast<std::int64_t>(number_of(v, name));
  return ns == 0 ? "-" : format_duration_ns(ns);
}

void print_node(const json::value& node) {
  fmt::print("node      {} (member {}, life {}), up {}, vrampoold {}\n", text_of(node, "name"), text_of(node, "member"),
             text_of(node, "life"),
             format_duration_ns(static_cast<std::int64_t>(number_of(node, "uptime_ms")) * 1'000'000),
             text_of(node, "version"));
  fmt::print("memory    donates {}, {} used, {} cached\n", bytes_of(node, "capacity_bytes"),
             bytes_of(node, "used_bytes"), bytes_of(node, "cache_bytes"));
  fmt::print("faults    {} through {}; p50 {}, p99 {}\n", text_of(node, "faults", "0"), text_of(node, "fault_source"),
             nanoseconds(node, "fault_p50_ns"), nanoseconds(node, "fault_p99_ns"));
  fmt::print("pages     {} fetched, {} served\n", text_of(node, "pages_fetched", "0"),
             text_of(node, "pages_served", "0"));
}

void print_pool(const json::value& pool) {
  if (text_of(pool, "state") == "none") {
    fmt::print("pool      none yet: vrampool init makes one, vrampool join enters one\n");
    return;
  }
  fmt::print("pool      {}, coordinated by {}{}\n", text_of(pool, "id"), text_of(pool, "coordinator", "nobody"),
             truth_of(pool, "can_change") ? "" : " (no changes possible now)");
}

}  // namespace

Result<int> run_status(const Invocation& in) {
  VP_TRY(doc, ask(in, "status"));
  if (in.json) {
    print_json(doc);
    return kFine;
  }
  print_health(in, list_of(doc, "health"));
  print_node(at(doc, "node"));
  print_pool(at(doc, "pool"));
  if (const json::array& nodes = list_of(doc, "nodes"); !nodes.empty()) fmt::print("\n"), print_nodes(in, nodes);
  if (const json::array& jobs = list_of(doc, "jobs"); !jobs.empty()) fmt::print("\n"), print_jobs(in, jobs);
  return kFine;
}

}  // namespace vrampool::cli
