// model.safetensors.index.json: {"metadata": {...}, "weight_map": {"tensor": "shard file"}}.
#include <algorithm>

#include "base/limits.h"
#include "formats/json_walk.h"
#include "formats/model.h"
#include "formats/safetensors.h"

namespace vrampool::formats {
namespace {

// A shard lies beside its index: anything that could lead elsewhere is refused.
bool is_plain_name(std::string_view name) {
  if (name.empty() || name.size() > kNameBytesMax || name.front() == '.') return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return c >= ' ' && c <= '~' && c != '/' && c != '\\' && c != ':'; });
}

class IndexSink final : public JsonSink {
 public:
  explicit IndexSink(std::string_view file) : file_(file) {}

  std::map<std::string, std::string> shard_of;
  bool found = false;

  void object_begin() override {
    if (depth_ == 1 && in_map_) found = true;
    if (depth_ >= 2 && in_map_) return refuse("an object");
    ++depth_;
  }
  void object_end() override { --depth_; }
  void array_begin() override {
    if (depth_ == 0 || in_map_) return refuse("an array");
    ++depth_;
  }
  void array_end() override { --depth_; }
  void key(std::string_view text) override {
    if (depth_ == 1) in_map_ = text == "weight_map";
    if (depth_ == 2 && in_map_) tensor_ = text;
  }
  void string(std::string_view text) override {
    if (depth_ == 0 || (depth_ == 1 && in_map_)) return refuse("a string");
    if (depth_ == 2 && in_map_) add(text);
  }
  void whole_number(std::uint64_t) override { other("a number"); }
  void other(std::string_view kind) override {
    if (depth_ == 0 || in_map_) refuse(kind);
  }

 private:
  void refuse(std::string_view kind) {
    failure = error(VP_CORRUPT, "{}: {} where weight_map has tensor and shard names", shown(file_), kind);
  }
  void add(std::string_view shard) {
    if (auto good = check_tensor_name(tensor_, file_); !good) {
      failure = good.take_error();
    } else if (!is_plain_name(shard)) {
      failure = error(VP_CORRUPT, "{}: tensor \"{}\": shard \"{}\" is not the name of a file beside the index",
                      shown(file_), tensor_, shown(shard));
    } else if (!shard_of.emplace(tensor_, shard).second) {
      failure = error(VP_CORRUPT, "{}: tensor \"{}\" is listed twice", shown(file_), tensor_);
    } else if (shard_of.size() > kTensorsPerSegmentMax) {
      failure = error(VP_CORRUPT, "{}: more than {} tensors", shown(file_), kTensorsPerSegmentMax);
    }
  }

  std::string_view file_;
  int depth_ = 0;
  bool in_map_ = false;
  std::string tensor_;
};

}  // namespace

Result<SafetensorsIndex> parse_safetensors_index(std::span<const std::byte> bytes, std::string_view file_name) {
  if (bytes.size() > kSafetensorsHeaderBytesMax)
    return error(VP_CORRUPT, "{}: an index of {} bytes is larger than the {} allowed", shown(file_name), bytes.size(),
                 kSafetensorsHeaderBytesMax);
  IndexSink sink(file_name);
  VP_CHECK(walk_json(bytes, 32, shown(file_name), sink));
  if (!sink.found) return error(VP_CORRUPT, "{}: no weight_map; this is no safetensors index", shown(file_name));
  SafetensorsIndex index;
  for (const auto& [tensor, shard] : sink.shard_of) index.files.push_back(shard);
  std::sort(index.files.begin(), index.files.end());
  index.files.erase(std::unique(index.files.begin(), index.files.end()), index.files.end());
  if (index.files.size() > kFilesPerSegmentMax)
    return error(VP_CORRUPT, "{}: {} shards are more than the {} allowed", shown(file_name), index.files.size(),
                 kFilesPerSegmentMax);
  for (const auto& [tensor, shard] : sink.shard_of) {
    const auto at = std::lower_bound(index.files.begin(), index.files.end(), shard);
    index.tensor_file.emplace(tensor, static_cast<std::size_t>(at - index.files.begin()));
  }
  return index;
}

Status check_against_index(const SafetensorsIndex& index, std::span<const TensorTable> tables) {
  VP_ASSERT(tables.size() == index.files.size());
  auto missing = index.tensor_file;
  for (std::size_t i = 0; i < tables.size(); ++i) {
    for (const auto& t : tables[i].tensors) {
      const auto at = missing.find(t.name);
      if (at == missing.end() || at->second != i)
        return error(VP_CORRUPT, "{}: tensor \"{}\" is here, but the index does not say so", index.files[i], t.name);
      missing.erase(at);
    }
  }
  if (missing.empty()) return {};
  return error(VP_CORRUPT, "{}: tensor \"{}\" is missing, although the index says it is here",
               index.files[missing.begin()->second], missing.begin()->first);
}

}  // namespace vrampool::formats
