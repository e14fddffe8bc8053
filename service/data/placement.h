// Where the bytes of a segment are asked for: its record's pieces, with the dead hosts left out.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/ids.h"
#include "service/data_plane.h"

namespace vrampool::service::data {

// Threads: one. Units: bytes. Every byte of the segment belongs to exactly one run.
class Placement {
 public:
  struct Run {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    MemberNo home{};  // whom to ask; 0: nobody holds it
    std::uint32_t ordinal = 0;
  };
  Placement() = default;
  // Of several copies the one on `self` is taken, else the lowest living copy, else copy 0.
  Placement(const wire::RecordT& record, MemberNo self, const std::function<bool(MemberNo)>& alive);

  const std::vector<Run>& runs() const { return runs_; }
  std::uint64_t bytes() const { return bytes_; }
  // REQUIRES: offset < bytes().
  const Run& at(std::uint64_t offset) const;

 private:
  std::vector<Run> runs_;
  std::uint64_t bytes_ = 0;
};

}  // namespace vrampool::service::data
