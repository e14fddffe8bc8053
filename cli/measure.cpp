#include "cli/measure.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/limits.h"
#include "base/text.h"
#include "cli/daemon.h"

namespace vrampool::cli {
namespace {

std::string latency_text(std::int64_t ns) { return ns == 0 ? "" : format_duration_ns(ns); }

json::object as_json(const Figure& f) {
  json::object o{{"name", f.name}};
  if (f.p50_ns > 0) o["p50_ns"] = f.p50_ns, o["p99_ns"] = f.p99_ns;
  if (f.bytes_per_second > 0) o["bytes_per_second"] = f.bytes_per_second;
  if (f.cpu_ns_per_operation > 0) o["cpu_ns_per_operation"] = f.cpu_ns_per_operation;
  return o;
}

// First against second: how many times as long, or what share of the rate.
double ratio(const std::vector<Figure>& f) {
  if (f.size() < 2) return 0;
  if (f[0].p50_ns > 0 && f[1].p50_ns > 0) return static_cast<double>(f[0].p50_ns) / static_cast<double>(f[1].p50_ns);
  if (f[0].bytes_per_second > 0 && f[1].bytes_per_second > 0) return f[0].bytes_per_second / f[1].bytes_per_second;
  return 0;
}

void print_table(const Invocation& in, const std::vector<Figure>& figures) {
  Table table({"WHAT", ">P50", ">P99", ">RATE", ">CPU/OP"});
  for (const Figure& f : figures) {
    table.row(
        {f.name, latency_text(f.p50_ns), latency_text(f.p99_ns),
         f.bytes_per_second > 0 ? format_rate(f.bytes_per_second) : "",
         f.cpu_ns_per_operation > 0 ? format_duration_ns(static_cast<std::int64_t>(f.cpu_ns_per_operation)) : ""});
  }
  table.print(in);
  if (const double r = ratio(figures); r > 0) fmt::print("\n{:.2f} x the baseline of the same run\n", r);
}

void fill_page(std::vector<std::byte>& pages, std::uint64_t first) {
  for (std::size_t at = 0; at < pages.size(); at += sizeof first) {
    const std::uint64_t word = (first + at) * 0x9e3779b97f4a7c15ull;
    std::memcpy(&pages[at], &word, sizeof word);
  }
}

vp::Segment filled(vp::Session& session, const std::string& name, const std::string& node, std::uint64_t bytes) {
  const char* nodes[] = {node.c_str()};
  auto options = VP_INIT(vp_create_options);
  options.bytes = bytes;
  options.placement = "nodes";
  options.nodes = nodes;
  options.node_count = 1;
  vp::Segment segment = session.create(name, options);
  std::vector<std::byte> pages(std::min<std::uint64_t>(bytes, 1 << 20));
  for (std::uint64_t at = 0; at < bytes; at += pages.size()) {
    fill_page(pages, at);
    segment.write(at, std::span(pages).first(std::min<std::uint64_t>(pages.size(), bytes - at)));
  }
  segment.seal();
  // The creator's handle may know more than a reader's: measure as a reader.
  return session.open(name);
}

Result<std::string> node_where(const Invocation& in, bool self) {
  VP_TRY(doc, ask(in, "nodes"));
  for (const json::value& n : list_of(doc, "nodes")) {
    if (truth_of(n, "self") == self && text_of(n, "state") == "alive") return text_of(n, "name");
  }
  if (self) return error(VP_NOT_FOUND, "this node is in no pool: vrampool init makes one");
  return error(VP_NOT_FOUND, "no other node is alive: this measures reading from another one");
}

}  // namespace

Figure latency_figure(std::string name, std::vector<std::int64_t>& ns, double cpu_ns_per_operation) {
  std::sort(ns.begin(), ns.end());
  Figure f{std::move(name)};
  if (!ns.empty()) f.p50_ns = ns[ns.size() / 2], f.p99_ns = ns[ns.size() * 99 / 100];
  f.cpu_ns_per_operation = cpu_ns_per_operation;
  return f;
}

Figure rate_figure(std::string name, std::uint64_t bytes, double seconds) {
  Figure f{std::move(name)};
  f.bytes_per_second = static_cast<double>(bytes) / std::max(seconds, 1e-9);
  return f;
}

int print_figures(const Invocation& in, const std::string& verb, const std::vector<Figure>& figures) {
  if (!in.json) {
    print_table(in, figures);
    return kFine;
  }
  json::object doc = document(verb);
  json::array list;
  for (const Figure& f : figures) list.push_back(as_json(f));
  doc["figures"] = std::move(list);
  if (const double r = ratio(figures); r > 0) doc["ratio"] = r;
  print_json(doc);
  return kFine;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

Result<std::string> peer_of(const Invocation& in) {
  return in.has("--node") ? Result<std::string>(in.text("--node")) : node_where(in, false);
}

Result<std::string> own_name(const Invocation& in) { return node_where(in, true); }

TempSegment::TempSegment(vp::Session& session, const std::string& node, std::uint64_t bytes)
    : session_(session), name_(fmt::format("bench-{}", ::getpid())), segment_(filled(session, name_, node, bytes)) {}

TempSegment::~TempSegment() {
  segment_ = vp::Segment();
  static_cast<void>(vp_remove(session_.get(), name_.c_str(), 1));
}

Result<int> with_segment(const Invocation& in, const std::string& node, std::uint64_t bytes,
                         const std::function<Result<int>(const vp::Segment&)>& body) {
  return with_session(in, [&](vp::Session& session) -> Result<int> {
    if (in.has("--segment")) return body(session.open(in.text("--segment")));
    const TempSegment temporary(session, node, bytes);
    return body(temporary.segment());
  });
}

}  // namespace vrampool::cli
