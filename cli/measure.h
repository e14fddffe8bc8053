// What the bench verbs share: our sides of a comparison, a temporary segment on a chosen node, the printing.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/baselines.h"
#include "bench/measure.h"
#include "cli/print.h"
#include "cli/sdk.h"

namespace vrampool::cli {

// Runs the comparison and prints it: a table, or with --json a document of `verb` with the list "figures". The first
// side is the baseline that ratios refer to.
Result<int> compare_and_print(const Invocation&, const std::string& verb, const std::vector<bench::Measured>& sides,
                              const bench::Plan& plan);

// The nodes as this daemon sees them, and whether data between nodes is encrypted.
struct Bench {
  std::string self, peer;  // --node, or the first other node that is alive
  bool tls = false;
};
// Errors: no pool; no other node (unless `alone`).
Result<Bench> bench_scene(const Invocation&, bool alone = false);

// Runs `body(segment)` on --segment, or on a temporary one of `bytes` on `node`, gone afterwards.
Result<int> with_segment(const Invocation&, const std::string& node, std::uint64_t bytes,
                         const std::function<Result<int>(const vp::Segment&)>& body);

// The baseline of a lazy fault: a fault that another process resolves, then a bare round trip. Make it before threads
// start.
Result<bench::Measured> fault_and_trip(bool tls);

// ---- our sides; the segment must outlive them ----

// Pages read by this program through its daemon, at random places.
bench::Measured client_reads(const vp::Segment& segment);
// Reads of 1 MiB, several under way; an operation is one of them.
bench::Measured client_stream(const vp::Segment& segment);
// First touches of pages of lazy views, far from each other: a page is touched once, so operations are bounded by its
// size.
bench::Measured first_touches(const vp::Segment& segment);
// A lazy view front to back; an operation is 1 MiB of it, touched once.
bench::Measured lazy_scan(const vp::Segment& segment);

}  // namespace vrampool::cli
