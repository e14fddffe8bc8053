// The demo's client side: a program like any other, attached to one node through the SDK.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace vrampool::cli {

struct ScanFigures {
  std::uint64_t tensors = 0, bytes = 0, pages = 0;
  std::vector<std::int64_t> touch_ns;  // every touch, longest first: as many were faults as the daemon counted
  double lazy_bytes_per_second = 0, resident_bytes_per_second = 0;
};

// Maps every tensor of `segment` (imported from `file` with layout "file") lazily and resident, touches every page and
// compares every tensor with the file. Errors: VP_CORRUPT names the first tensor that differs.
Result<ScanFigures> scan_model(const std::string& socket, const std::string& segment, const std::string& file);

struct SparseFigures {
  std::uint64_t written = 0, read_back = 0;
  double create_seconds = 0, write_seconds = 0, seal_seconds = 0, read_seconds = 0;
};

// Makes a sparse segment, writes `samples` pages evenly over it through one node and reads them back through another,
// with unwritten neighbours, which must be zero.
Result<SparseFigures> fill_sparse(const std::string& writer_socket, const std::string& reader_socket,
                                  const std::string& segment, std::uint64_t bytes, std::uint64_t samples);

}  // namespace vrampool::cli
