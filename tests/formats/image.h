// Builds a segment's bytes from a plan and exports them again: what a daemon does, in memory.
#pragma once

#include "formats/model.h"
#include "samples.h"

namespace vrampool::formats {

inline samples::Bytes segment_image(const SegmentPlan& plan, const std::vector<samples::Bytes>& files) {
  samples::Bytes image(plan.bytes);
  for (const auto& r : plan.ranges)
    std::memcpy(image.data() + r.segment_offset, files.at(r.file).data() + r.file_offset, r.bytes);
  return image;
}

// True if the ranges tile every file, take segment bytes once each, and bring back every file byte.
inline bool exports_exactly(const SegmentPlan& plan, const std::vector<samples::Bytes>& files) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> taken;
  std::vector<std::uint64_t> covered(files.size());
  for (const auto& r : plan.ranges) {
    if (r.bytes == 0 || r.file_offset != covered.at(r.file) || r.segment_offset + r.bytes > plan.bytes) return false;
    covered[r.file] += r.bytes;
    taken.emplace_back(r.segment_offset, r.segment_offset + r.bytes);
  }
  for (std::size_t i = 0; i < files.size(); ++i)
    if (covered[i] != files[i].size()) return false;
  std::sort(taken.begin(), taken.end());
  for (std::size_t i = 1; i < taken.size(); ++i)
    if (taken[i].first < taken[i - 1].second) return false;
  const auto image = segment_image(plan, files);
  for (const auto& r : plan.ranges)
    if (std::memcmp(files[r.file].data() + r.file_offset, image.data() + r.segment_offset, r.bytes) != 0) return false;
  return true;
}

}  // namespace vrampool::formats
