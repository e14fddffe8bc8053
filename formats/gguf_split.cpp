// Split GGUF files: their names "x-00001-of-00003.gguf" and whether the parts belong together.
#include "formats/gguf.h"

namespace vrampool::formats {
namespace {

constexpr std::string_view kOf = "-of-";
constexpr std::string_view kExtension = ".gguf";
constexpr std::size_t kTailBytes = 1 + 5 + 4 + 5 + 5;  // -00001-of-00003.gguf

std::optional<std::uint32_t> five_digits(std::string_view text) {
  std::uint32_t n = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    n = n * 10 + static_cast<std::uint32_t>(c - '0');
  }
  return n;
}

}  // namespace

std::vector<std::string> gguf_split_names(std::string_view file_name) {
  if (file_name.size() <= kTailBytes) return {};
  const auto stem = file_name.substr(0, file_name.size() - kTailBytes);
  const auto tail = file_name.substr(stem.size());
  if (tail[0] != '-' || tail.substr(6, 4) != kOf || tail.substr(15) != kExtension) return {};
  const auto index = five_digits(tail.substr(1, 5));
  const auto count = five_digits(tail.substr(10, 5));
  if (!index || !count || *index == 0 || *index > *count || *count > kGgufSplitsMax) return {};
  std::vector<std::string> names;
  for (std::uint32_t i = 1; i <= *count; ++i) names.push_back(fmt::format("{}-{:05}-of-{:05}.gguf", stem, i, *count));
  return names;
}

Status check_gguf_split(std::span<const TensorTable> tables) {
  std::uint64_t tensors = 0;
  std::uint64_t announced = 0;
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const SplitInfo split = tables[i].split.value_or(SplitInfo{});
    if (split.count != tables.size())
      return error(VP_CORRUPT, "part {} of the split says that there are {} parts, not {}", i + 1, split.count,
                   tables.size());
    if (split.index != i)
      return error(VP_CORRUPT, "part {} of the split says that it is part {}", i + 1, split.index + 1);
    tensors += tables[i].tensors.size();
    announced = std::max(announced, split.tensors);
  }
  if (announced == 0 || announced == tensors) return {};
  return error(VP_CORRUPT, "the split should hold {} tensors and holds {}", announced, tensors);
}

}  // namespace vrampool::formats
