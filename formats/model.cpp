#include "formats/model.h"

#include <algorithm>
#include <tuple>

namespace vrampool::formats {
namespace {

constexpr std::uint64_t page_down(std::uint64_t n) { return n / kPageBytes * kPageBytes; }
constexpr std::uint64_t page_up(std::uint64_t n) { return page_down(n + kPageBytes - 1); }

bool goes_along(const TensorTable& t) { return t.format == "raw" && t.tensors.empty(); }

// Sizes first, so that no later sum can overflow: every file fits into a slot, and so do all with their rounding.
Status check_sizes(const std::vector<ParsedFile>& files) {
  if (files.empty()) return error(VP_INVALID, "no file to import");
  if (files.size() > kFilesPerSegmentMax)
    return error(VP_INVALID, "{} files are more than the {} allowed in one segment", files.size(), kFilesPerSegmentMax);
  std::uint64_t tensors = 0;
  std::uint64_t bytes = 0;
  for (const auto& f : files) {
    tensors += f.table.tensors.size();
    const std::uint64_t most = f.table.file_bytes < kPoolSlotBytes ? f.table.file_bytes + kPageBytes : kPoolSlotBytes;
    bytes = std::min(bytes + most, kPoolSlotBytes);
  }
  if (tensors > kTensorsPerSegmentMax)
    return error(VP_INVALID, "{} tensors are more than the {} allowed in one segment", tensors, kTensorsPerSegmentMax);
  if (bytes + (tensors + 1) * kPageBytes > kPoolSlotBytes)
    return error(VP_INVALID, "the files are larger than the {} bytes that a segment may have", kPoolSlotBytes);
  return {};
}

Result<std::string> common_format(const std::vector<ParsedFile>& files) {
  const ParsedFile* first = nullptr;
  for (const auto& f : files) {
    if (goes_along(f.table)) continue;
    if (first == nullptr) first = &f;
    if (f.table.format != first->table.format)
      return error(VP_INVALID, "\"{}\" is {} and \"{}\" is {}; import them as two segments", shown(first->name),
                   first->table.format, shown(f.name), f.table.format);
  }
  return first != nullptr ? first->table.format : std::string("raw");
}

Status check_names(const std::vector<ParsedFile>& files) {
  std::vector<std::pair<std::string_view, std::size_t>> names;
  for (std::size_t i = 0; i < files.size(); ++i)
    for (const auto& t : files[i].table.tensors) names.emplace_back(t.name, i);
  std::sort(names.begin(), names.end());
  const auto same = [](const auto& a, const auto& b) { return a.first == b.first; };
  const auto twice = std::adjacent_find(names.begin(), names.end(), same);
  if (twice == names.end()) return {};
  return error(VP_INVALID, "tensor \"{}\" is in \"{}\" and in \"{}\"", shown(twice->first),
               shown(files[twice->second].name), shown(files[(twice + 1)->second].name));
}

class Planner {
 public:
  Planner(const std::vector<ParsedFile>& files, SegmentPlan& plan) : files_(files), plan_(plan) {}

  void lay_out_images() {
    for (std::size_t i = 0; i < files_.size(); ++i) {
      end_ = page_up(end_);
      const auto& table = files_[i].table;
      cut_at(end_);
      for (const auto& t : table.tensors) {
        add_tensor(t, end_ + t.file_offset);
        cut_at(page_down(end_ + t.file_offset));
      }
      add_range(i, 0, table.file_bytes);
    }
  }
  void lay_out_aligned() {
    for (std::size_t i = 0; i < files_.size(); ++i) add_gaps(i);
    for (std::size_t i = 0; i < files_.size(); ++i) {
      for (const auto& t : files_[i].table.tensors) {
        end_ = page_up(end_);
        cut_at(end_);
        add_tensor(t, end_);
        add_range(i, t.file_offset, t.bytes);
      }
    }
  }
  void finish() {
    plan_.bytes = std::max<std::uint64_t>(page_up(end_), kPageBytes);
    auto& cuts = plan_.cut_points;
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    std::erase_if(cuts, [this](std::uint64_t c) { return c == 0 || c >= plan_.bytes; });
    std::sort(plan_.ranges.begin(), plan_.ranges.end(), [](const wire::FileRangeT& a, const wire::FileRangeT& b) {
      return std::tie(a.file, a.file_offset) < std::tie(b.file, b.file_offset);
    });
    join_ranges();
  }

 private:
  void cut_at(std::uint64_t offset) { plan_.cut_points.push_back(offset); }
  void add_tensor(const TensorEntry& t, std::uint64_t offset) {
    wire::TensorT& out = plan_.tensors.emplace_back();
    out.name = t.name;
    out.dtype = t.dtype;
    out.type_name = t.type_name;
    out.shape = t.shape;
    out.offset = offset;
    out.bytes = t.bytes;
  }
  // File bytes from `file_offset` on become the next segment bytes.
  void add_range(std::size_t file, std::uint64_t file_offset, std::uint64_t bytes) {
    if (bytes == 0) return;
    wire::FileRangeT& r = plan_.ranges.emplace_back();
    r.file = static_cast<std::uint16_t>(file);
    r.file_offset = file_offset;
    r.segment_offset = end_;
    r.bytes = bytes;
    end_ += bytes;
  }
  // What is no tensor: header, padding, a tail.
  void add_gaps(std::size_t file) {
    const auto& table = files_[file].table;
    std::uint64_t at = 0;
    for (const auto& t : table.tensors) {
      add_range(file, at, t.file_offset - at);
      at = t.file_offset + t.bytes;
    }
    add_range(file, at, table.file_bytes - at);
  }
  void join_ranges() {
    std::vector<wire::FileRangeT> joined;
    for (auto& r : plan_.ranges) {
      auto* last = joined.empty() ? nullptr : &joined.back();
      if (last != nullptr && last->file == r.file && last->file_offset + last->bytes == r.file_offset &&
          last->segment_offset + last->bytes == r.segment_offset)
        last->bytes += r.bytes;
      else
        joined.push_back(r);
    }
    plan_.ranges = std::move(joined);
  }

  const std::vector<ParsedFile>& files_;
  SegmentPlan& plan_;
  std::uint64_t end_ = 0;
};

}  // namespace

Result<SegmentPlan> plan_segment(const std::vector<ParsedFile>& files, wire::LayoutMode layout) {
  VP_CHECK(check_sizes(files));
  VP_CHECK(check_names(files));
  VP_TRY(format, common_format(files));
  SegmentPlan plan;
  plan.format = std::move(format);
  plan.layout = layout;
  Planner planner(files, plan);
  if (layout == wire::LayoutMode::file)
    planner.lay_out_images();
  else
    planner.lay_out_aligned();
  planner.finish();
  return plan;
}

SegmentPlan plan_plain(std::uint64_t bytes) {
  SegmentPlan plan;
  plan.format = "raw";
  plan.bytes = std::max<std::uint64_t>(page_up(bytes), kPageBytes);
  return plan;
}

}  // namespace vrampool::formats
