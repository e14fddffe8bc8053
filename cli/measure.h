// What the bench verbs share: figures with medians and CPU time, a temporary segment on a chosen node.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cli/print.h"
#include "cli/sdk.h"

namespace vrampool::cli {

// One measured thing. Latencies in nanoseconds, rates in bytes per second; 0: not measured.
struct Figure {
  std::string name;
  std::int64_t p50_ns = 0, p99_ns = 0;
  double bytes_per_second = 0;
  double cpu_ns_per_operation = 0;
};

// Sorts `ns`.
Figure latency_figure(std::string name, std::vector<std::int64_t>& ns, double cpu_ns_per_operation);
Figure rate_figure(std::string name, std::uint64_t bytes, double seconds);
// A table, or with --json a document of `verb` with the list "figures"; then one line that compares the first figure
// with the second ("ratio") when both are there.
int print_figures(const Invocation&, const std::string& verb, const std::vector<Figure>& figures);

double median(std::vector<double> values);

// A node to read from: --node, or the first alive one that is not this. Errors: there is no other.
Result<std::string> peer_of(const Invocation&);
Result<std::string> own_name(const Invocation&);

// A sealed segment of pages that differ, on one node; removed at the end.
class TempSegment {
 public:
  TempSegment(vp::Session& session, const std::string& node, std::uint64_t bytes);
  ~TempSegment();
  TempSegment(const TempSegment&) = delete;
  TempSegment& operator=(const TempSegment&) = delete;
  const vp::Segment& segment() const { return segment_; }

 private:
  vp::Session& session_;
  std::string name_;
  vp::Segment segment_;
};

// Runs `body(segment)` on --segment, or on a temporary one of `bytes` on `node`.
Result<int> with_segment(const Invocation&, const std::string& node, std::uint64_t bytes,
                         const std::function<Result<int>(const vp::Segment&)>& body);

}  // namespace vrampool::cli
