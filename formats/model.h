// From parsed files to a segment: where each tensor lies in it and which segment bytes are which file bytes.
#pragma once

#include "base/limits.h"
#include "formats/tensor_table.h"

namespace vrampool::formats {

inline constexpr std::size_t kFilesPerSegmentMax = 4096;

struct ParsedFile {
  std::string name;  // plain name or relative path, as export will write it
  TensorTable table;
};

// Ready to be copied into a wire::RecordT.
struct SegmentPlan {
  std::string format;
  wire::LayoutMode layout = wire::LayoutMode::aligned;
  std::uint64_t bytes = 0;             // whole pages
  std::vector<wire::TensorT> tensors;  // by segment offset
  // By (file, file_offset): every byte of every file exactly once, each at its own segment bytes, so that export
  // is byte-exact. Segment bytes in no range are zero.
  std::vector<wire::FileRangeT> ranges;
  // Where a stripe may end: page multiples inside the segment, rising. A cut there parts no tensor (aligned), or
  // leaves at most the last page of one tensor with its successor (file).
  std::vector<std::uint64_t> cut_points;
};

// `file`: the segment is the files' images one after the other, each from a page on.
// `aligned`: headers and gaps of all files first, then each tensor from a page on, in file order.
// Files of format "raw" without tensors go along with any format.
// Errors: VP_INVALID no file, too many files or tensors, mixed formats, a tensor name twice (names both files).
Result<SegmentPlan> plan_segment(const std::vector<ParsedFile>& files, wire::LayoutMode layout);

// A plan for one segment of plain bytes without a file behind it (created by a program).
SegmentPlan plan_plain(std::uint64_t bytes);

}  // namespace vrampool::formats
