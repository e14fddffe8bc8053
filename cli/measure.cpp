#include "cli/measure.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/limits.h"
#include "cli/daemon.h"
#include "platform/clock.h"

namespace vrampool::cli {
namespace {

constexpr std::size_t kBlockBytes = 1 << 20;
constexpr std::size_t kInFlight = 8;
constexpr std::size_t kPagesBetweenTouches = 16;  // no read-ahead reaches the next one

json::object as_json(const bench::Summary& s) {
  return {{"name", s.name},
          {"operations", s.operations},
          {"p50_ns", s.p50_ns},
          {"p90_ns", s.p90_ns},
          {"p99_ns", s.p99_ns},
          {"cpu_ns_per_operation", s.cpu_ns_per_op},
          {"bytes_per_second", s.bytes_per_second},
          {"p50_ratio", s.p50_ratio},
          {"rate_ratio", s.rate_ratio},
          {"cpu_ratio", s.cpu_ratio}};
}

void fill_pages(std::vector<std::byte>& pages, std::uint64_t first) {
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
  std::vector<std::byte> pages(std::min<std::uint64_t>(bytes, kBlockBytes));
  for (std::uint64_t at = 0; at < bytes; at += pages.size()) {
    fill_pages(pages, at);
    segment.write(at, std::span(pages).first(std::min<std::uint64_t>(pages.size(), bytes - at)));
  }
  segment.seal();
  return session.open(name);
}

class TempSegment {
 public:
  TempSegment(vp::Session& session, const std::string& node, std::uint64_t bytes)
      : session_(session), name_(fmt::format("bench-{}", ::getpid())), segment_(filled(session, name_, node, bytes)) {}
  ~TempSegment() {
    segment_ = vp::Segment();
    static_cast<void>(vp_remove(session_.get(), name_.c_str(), 1));
  }
  TempSegment(const TempSegment&) = delete;
  TempSegment& operator=(const TempSegment&) = delete;
  const vp::Segment& segment() const { return segment_; }

 private:
  vp::Session& session_;
  std::string name_;
  vp::Segment segment_;
};

// Times `n` calls of `operation(i)`; a vp::Error becomes an Error.
template <class Operation>
Result<bench::Samples> timed(std::size_t n, std::uint64_t bytes_per_op, Operation operation) {
  bench::Samples s;
  s.bytes_per_op = bytes_per_op;
  s.cpu_ns = -1;  // the daemons' share is not known here
  s.ns.reserve(n);
  try {
    std::int64_t before = platform::monotonic_ns();
    for (std::size_t i = 0; i < n; ++i) {
      operation(i);
      const std::int64_t after = platform::monotonic_ns();
      s.ns.push_back(static_cast<std::uint64_t>(after - before));
      before = after;
    }
  } catch (const vp::Error& failure) {
    return Error{failure.code(), failure.what()};
  }
  return s;
}

void touch(const std::byte* page) { static_cast<void>(*const_cast<const volatile std::byte*>(page)); }

std::shared_ptr<vp::View> lazy_view(const vp::Segment& segment) {
  vp::MapOptions lazy;
  lazy.lazy = true;
  return std::make_shared<vp::View>(segment.map(lazy));
}

// A window of reads under way; the operation that reuses a slot waits for what was in it.
struct Window {
  std::vector<std::vector<std::byte>> buffers{kInFlight, std::vector<std::byte>(kBlockBytes)};
  std::vector<vp::Token> tokens{kInFlight};
};

}  // namespace

Result<int> compare_and_print(const Invocation& in, const std::string& verb, const std::vector<bench::Measured>& sides,
                              const bench::Plan& plan) {
  VP_TRY(rows, bench::compare(sides, plan));
  if (!in.json) {
    fmt::print("{}", bench::table(rows));
    return kFine;
  }
  json::object doc = document(verb);
  json::array list;
  for (const bench::Summary& s : rows) list.push_back(as_json(s));
  doc["figures"] = std::move(list);
  print_json(doc);
  return kFine;
}

Result<Bench> bench_scene(const Invocation& in, bool alone) {
  VP_TRY(doc, ask(in, "status"));
  Bench scene;
  scene.self = text_of(at(doc, "node"), "name");
  scene.tls = truth_of(at(doc, "node"), "data_tls");
  scene.peer = in.text("--node");
  for (const json::value& n : list_of(doc, "nodes")) {
    if (scene.peer.empty() && !truth_of(n, "self") && text_of(n, "state") == "alive") scene.peer = text_of(n, "name");
  }
  if (list_of(doc, "nodes").empty()) return error(VP_NOT_FOUND, "this node is in no pool: vrampool init makes one");
  if (scene.peer.empty() && !alone) {
    return error(VP_NOT_FOUND, "no other node is alive: this measures reading from another one");
  }
  return scene;
}

Result<int> with_segment(const Invocation& in, const std::string& node, std::uint64_t bytes,
                         const std::function<Result<int>(const vp::Segment&)>& body) {
  return with_session(in, [&](vp::Session& session) -> Result<int> {
    if (in.has("--segment")) return body(session.open(in.text("--segment")));
    const TempSegment temporary(session, node, bytes);
    return body(temporary.segment());
  });
}

bench::Measured client_reads(const vp::Segment& segment) {
  auto buffer = std::make_shared<std::vector<std::byte>>(kPageBytes);
  auto place = std::make_shared<std::uint64_t>(1);
  return {"16 KiB read by a program", [&segment, buffer, place](std::size_t n) {
            const std::uint64_t pages = segment.info().bytes / kPageBytes;
            return timed(n, kPageBytes, [&](std::size_t) {
              *place = *place * 6364136223846793005ull + 1442695040888963407ull;
              segment.read((*place >> 33) % pages * kPageBytes, *buffer);
            });
          }};
}

bench::Measured client_stream(const vp::Segment& segment) {
  auto next = std::make_shared<std::size_t>(0);
  return {"stream to a program", [&segment, next](std::size_t n) {
            Window window;
            const std::uint64_t blocks = segment.info().bytes / kBlockBytes;
            return timed(n, kBlockBytes, [&](std::size_t i) {
              const std::size_t slot = i % kInFlight;
              window.tokens[slot] = vp::Token();
              window.tokens[slot] = segment.read_async((*next)++ % blocks * kBlockBytes, window.buffers[slot]);
              if (i + 1 == n) window.tokens.clear();
            });
          }};
}

bench::Measured first_touches(const vp::Segment& segment) {
  auto view = lazy_view(segment);
  auto next = std::make_shared<std::size_t>(0);
  return {"first touch of a remote page", [view, next](std::size_t n) -> Result<bench::Samples> {
            const auto bytes = view->as();
            if ((*next + n) * kPagesBetweenTouches * kPageBytes > bytes.size()) {
              return error(VP_INVALID, "the segment has too few pages for so many first touches");
            }
            return timed(n, 0, [&](std::size_t) { touch(&bytes[(*next)++ * kPagesBetweenTouches * kPageBytes]); });
          }};
}

bench::Measured lazy_scan(const vp::Segment& segment) {
  auto view = lazy_view(segment);
  auto next = std::make_shared<std::size_t>(0);
  return {"lazy view front to back", [view, next](std::size_t n) -> Result<bench::Samples> {
            const auto bytes = view->as();
            if ((*next + n) * kBlockBytes > bytes.size()) {
              return error(VP_INVALID, "the segment is too small for so long a scan");
            }
            return timed(n, kBlockBytes, [&](std::size_t) {
              const auto block = bytes.subspan((*next)++ * kBlockBytes, kBlockBytes);
              for (std::size_t at = 0; at < block.size(); at += kPageBytes) touch(&block[at]);
            });
          }};
}

Result<bench::Measured> fault_and_trip(bool tls) {
  VP_TRY(fault, bench::bare_fault());
  bench::EchoOptions o;
  o.tls = tls;
  VP_TRY(trip, bench::bare_echo(o));
  return bench::Measured{"bare fault + bare round trip", [fault, trip](std::size_t n) -> Result<bench::Samples> {
                           VP_TRY(a, fault.run(n));
                           VP_TRY(b, trip.run(n));
                           for (std::size_t i = 0; i < std::min(a.ns.size(), b.ns.size()); ++i) a.ns[i] += b.ns[i];
                           if (a.cpu_ns >= 0 && b.cpu_ns >= 0) a.cpu_ns += b.cpu_ns;
                           a.bytes_per_op = 0;
                           return std::move(a);
                         }};
}

}  // namespace vrampool::cli
