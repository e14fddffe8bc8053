// vrampool bench page-read, stream, fault, scan: reading from another node, beside bare sockets of the same run.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/limits.h"
#include "cli/bare.h"
#include "cli/daemon.h"
#include "cli/measure.h"
#include "cli/verbs/verbs.h"
#include "platform/clock.h"

namespace vrampool::cli {
namespace {

constexpr int kRounds = 5;  // of A B A B ...: the machine's mood changes between runs, less within one
constexpr std::size_t kChunkBytes = 8 << 20;
constexpr std::size_t kInFlight = 4;

double seconds_since(std::int64_t begun_ns) { return static_cast<double>(platform::monotonic_ns() - begun_ns) * 1e-9; }

struct Samples {
  std::vector<std::int64_t> ns;
  double cpu_ns = 0;
  void add(const std::vector<std::int64_t>& more, double cpu) {
    ns.insert(ns.end(), more.begin(), more.end());
    cpu_ns += cpu;
  }
  Figure figure(std::string name) {
    const double per_operation = ns.empty() ? 0 : cpu_ns / static_cast<double>(ns.size());
    return latency_figure(std::move(name), ns, per_operation);
  }
};

// ---- page-read: engine to engine ----

Status read_pages(const Invocation& in, const std::string& peer, std::uint64_t count, Samples& to) {
  VP_TRY(doc, ask(in, "bench", {"page-read", peer}, {{"count", count}, {"bytes", kPageBytes}, {"echo", true}}));
  std::vector<std::int64_t> ns;
  for (const json::value& v : list_of(doc, "ns")) ns.push_back(v.to_number<std::int64_t>());
  to.add(ns, static_cast<double>(number_of(doc, "cpu_ns")));
  return {};
}

// ---- lazy views ----

void touch(const std::byte* page) { static_cast<void>(*const_cast<const volatile std::byte*>(page)); }

// A few pages far from each other, so that no read-ahead helps.
std::vector<std::size_t> scattered(std::size_t pages, std::size_t count) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0, at = 0; i < std::min(count, pages); ++i, at = (at + pages * 5 / 8 + 1) % pages)
    out.push_back(at);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  for (std::size_t i = 1; i < out.size(); ++i) std::swap(out[i], out[(i * 7919) % (i + 1)]);
  return out;
}

double stream_once(const vp::Segment& segment, std::uint64_t bytes) {
  std::vector<std::vector<std::byte>> buffers(kInFlight, std::vector<std::byte>(kChunkBytes));
  std::vector<vp::Token> tokens(kInFlight);
  const std::int64_t begun = platform::monotonic_ns();
  std::size_t slot = 0;
  for (std::uint64_t at = 0; at < bytes; at += kChunkBytes, slot = (slot + 1) % kInFlight) {
    tokens[slot] = vp::Token();
    const std::size_t n = std::min<std::uint64_t>(kChunkBytes, bytes - at);
    tokens[slot] = segment.read_async(at, std::span(buffers[slot]).first(n));
  }
  for (vp::Token& t : tokens) t = vp::Token();
  return static_cast<double>(bytes) / seconds_since(begun);
}

double scan_once(const vp::Segment& segment, std::uint64_t bytes) {
  vp::MapOptions lazy;
  lazy.lazy = true;
  const vp::View view = segment.map_range(0, bytes, lazy);
  const auto span = view.as();
  const std::int64_t begun = platform::monotonic_ns();
  for (std::size_t at = 0; at < span.size(); at += kPageBytes) touch(&span[at]);
  const double rate = static_cast<double>(bytes) / seconds_since(begun);
  view.check();
  return rate;
}

Figure rate(std::string name, double bytes_per_second) {
  Figure f{std::move(name)};
  f.bytes_per_second = bytes_per_second;
  return f;
}

}  // namespace

Result<int> run_bench_page_read(const Invocation& in) {
  VP_TRY(peer, peer_of(in));
  const std::uint64_t count = std::max<std::uint64_t>(in.count("--count", 10'000) / kRounds, 1);
  Samples ours, bare;
  for (int round = 0; round < kRounds; ++round) {
    VP_CHECK(read_pages(in, peer, count, ours));
    VP_TRY(echo, bare_echo(kPageBytes, count));
    bare.add(echo.ns, echo.cpu_ns);
  }
  return print_figures(in, "bench.page-read",
                       {ours.figure("16 KiB page from " + peer), bare.figure("bare blocking-socket echo")});
}

Result<int> run_bench_stream(const Invocation& in) {
  VP_TRY(peer, peer_of(in));
  const std::uint64_t bytes = in.bytes("--bytes", 256 << 20) / kPageBytes * kPageBytes;
  return with_segment(in, peer, bytes, [&](const vp::Segment& segment) -> Result<int> {
    const std::uint64_t size = std::min(bytes, segment.info().bytes);
    std::vector<double> ours, bare;
    for (int round = 0; round < kRounds; ++round) {
      ours.push_back(stream_once(segment, size));
      VP_TRY(b, bare_stream(size));
      bare.push_back(b);
    }
    return print_figures(
        in, "bench.stream",
        {rate("stream from " + peer, median(ours)), rate("bare socket stream, crc on both sides", median(bare))});
  });
}

Result<int> run_bench_fault(const Invocation& in) {
  VP_TRY(peer, peer_of(in));
  const std::uint64_t count = in.count("--count", 2000);
  // Twice as many pages as touches, so that they lie apart.
  return with_segment(in, peer, count * 2 * kPageBytes, [&](const vp::Segment& segment) -> Result<int> {
    vp::MapOptions lazy;
    lazy.lazy = true;
    const vp::View view = segment.map(lazy);
    const auto span = view.as();
    Samples ours;
    for (const std::size_t page : scattered(span.size() / kPageBytes, count)) {
      const std::int64_t before = platform::monotonic_ns();
      touch(&span[page * kPageBytes]);
      ours.ns.push_back(platform::monotonic_ns() - before);
    }
    view.check();
    VP_TRY(bare, bare_echo(kPageBytes, count));
    Samples base;
    base.add(bare.ns, bare.cpu_ns);
    return print_figures(in, "bench.fault",
                         {ours.figure("first touch of a page of " + peer),
                          base.figure("bare round trip of such a page (no fault in it)")});
  });
}

Result<int> run_bench_scan(const Invocation& in) {
  VP_TRY(peer, peer_of(in));
  const std::uint64_t bytes = in.bytes("--bytes", 256 << 20) / kPageBytes * kPageBytes;
  return with_segment(in, peer, bytes, [&](const vp::Segment& segment) -> Result<int> {
    const std::uint64_t size = std::min(bytes, segment.info().bytes);
    // One scan only: afterwards the pages are here.
    const double ours = scan_once(segment, size);
    const double stream = stream_once(segment, size);
    return print_figures(
        in, "bench.scan",
        {rate("lazy view of " + peer + ", front to back", ours), rate("stream of the same bytes", stream)});
  });
}

}  // namespace vrampool::cli
