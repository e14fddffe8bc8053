// From paths to open, parsed files.
#include "service/import_files.h"

#include <algorithm>

#include "formats/gguf.h"
#include "formats/safetensors.h"

namespace vrampool::service {
namespace {

constexpr std::uint64_t kFirstPrefix = 64 * 1024;
constexpr std::uint64_t kIndexBytesMax = 256ull << 20;
constexpr std::string_view kIndexEnding = ".safetensors.index.json";

std::string base_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }
std::string directory_of(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }

Result<std::vector<std::byte>> read_prefix(const InputFile& file, std::uint64_t bytes) {
  std::vector<std::byte> out(std::min(bytes, file.bytes));
  VP_CHECK(read_fully(file, 0, out));
  return out;
}

Result<formats::TensorTable> parse_file(const InputFile& file) {
  const std::string name = base_of(file.path);
  std::uint64_t want = kFirstPrefix;
  while (true) {
    VP_TRY(prefix, read_prefix(file, want));
    const formats::Parser parser = formats::detect_format(prefix, name);
    if (!parser) return formats::raw_table(name, file.bytes);
    VP_TRY(step, parser(prefix, file.bytes, name));
    if (auto* table = std::get_if<formats::TensorTable>(&step)) return std::move(*table);
    want = std::get<formats::NeedBytes>(step).prefix_bytes;
  }
}

// ---- which files ----

Result<std::vector<std::string>> shards_of_index(const std::string& path, const FileRights& rights,
                                                 formats::SafetensorsIndex& index) {
  VP_TRY(file, open_input(path, rights));
  if (file.bytes > kIndexBytesMax) return error(VP_CORRUPT, "{}: an index of {} bytes", path, file.bytes);
  VP_TRY(bytes, read_prefix(file, file.bytes));
  VP_TRY(parsed, formats::parse_safetensors_index(bytes, base_of(path)));
  index = std::move(parsed);
  std::vector<std::string> out;
  for (const std::string& name : index.files) out.push_back(directory_of(path) + name);
  return out;
}

std::vector<std::string> with_ending(const std::vector<std::string>& names, std::string_view ending) {
  std::vector<std::string> out;
  std::copy_if(names.begin(), names.end(), std::back_inserter(out),
               [&](const std::string& n) { return n.ends_with(ending); });
  return out;
}

// The one thing in a directory that can be meant: an index, the safetensors, or one GGUF (perhaps split).
Result<std::vector<std::string>> paths_in(const std::string& directory, const FileRights& rights) {
  VP_TRY(names, list_directory(directory, rights));
  const auto in_directory = [&](std::vector<std::string> found) {
    for (std::string& n : found) n = directory + "/" + n;
    return found;
  };
  const auto indexes = with_ending(names, kIndexEnding);
  if (indexes.size() == 1) return in_directory(indexes);
  if (indexes.size() > 1)
    return error(VP_INVALID, "{}: holds {} safetensors indexes: name the one you mean", directory, indexes.size());
  const auto safetensors = with_ending(names, ".safetensors");
  const auto ggufs = with_ending(names, ".gguf");
  if (!safetensors.empty() && ggufs.empty()) return in_directory(safetensors);
  if (safetensors.empty() && !ggufs.empty()) {
    const auto parts = formats::gguf_split_names(ggufs.front());
    if (ggufs.size() == 1 || parts == ggufs) return in_directory({ggufs.front()});
    return error(VP_INVALID, "{}: holds {} GGUF files: name the one you mean", directory, ggufs.size());
  }
  if (safetensors.empty()) return error(VP_NOT_FOUND, "{}: holds no .safetensors and no .gguf file", directory);
  return error(VP_INVALID, "{}: holds both safetensors and GGUF files: name those you mean", directory);
}

Result<ModelFiles> open_files(const std::vector<std::string>& paths, const FileRights& rights) {
  if (paths.size() > formats::kFilesPerSegmentMax)
    return error(VP_INVALID, "{} files: a segment holds at most {}", paths.size(), formats::kFilesPerSegmentMax);
  ModelFiles model;
  for (const std::string& path : paths) {
    VP_TRY(file, open_input(path, rights));
    VP_TRY(table, parse_file(file));
    model.parsed.push_back({base_of(path), std::move(table)});
    model.files.push_back(std::move(file));
  }
  return model;
}

std::vector<formats::TensorTable> tables_of(const ModelFiles& model) {
  std::vector<formats::TensorTable> out;
  for (const auto& p : model.parsed) out.push_back(p.table);
  return out;
}

Result<ModelFiles> open_index(const std::string& path, const FileRights& rights) {
  formats::SafetensorsIndex index;
  VP_TRY(shards, shards_of_index(path, rights, index));
  VP_TRY(model, open_files(shards, rights));
  VP_CHECK(formats::check_against_index(index, tables_of(model)));
  VP_TRY(file, open_input(path, rights));  // goes along, so that an export is complete
  model.parsed.push_back({base_of(path), formats::attachment_table(file.bytes)});
  model.files.push_back(std::move(file));
  return std::move(model);
}

Result<ModelFiles> open_one(const std::string& path, const FileRights& rights) {
  if (path.ends_with(kIndexEnding)) return open_index(path, rights);
  std::vector<std::string> parts;
  for (const std::string& name : formats::gguf_split_names(base_of(path))) parts.push_back(directory_of(path) + name);
  if (parts.size() < 2) return open_files({path}, rights);
  VP_TRY(model, open_files(parts, rights));
  VP_CHECK(formats::check_gguf_split(tables_of(model)));
  return std::move(model);
}

}  // namespace

Result<ModelFiles> open_model(const std::vector<std::string>& paths, const FileRights& rights) {
  if (paths.size() != 1) return open_files(paths, rights);
  VP_TRY(directory, is_directory(paths.front(), rights));
  if (!directory) return open_one(paths.front(), rights);
  VP_TRY(inside, paths_in(paths.front(), rights));
  return inside.size() == 1 ? open_one(inside.front(), rights) : open_files(inside, rights);
}

}  // namespace vrampool::service
