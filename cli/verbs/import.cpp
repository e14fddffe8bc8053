// vrampool import: model files into the pool, as a job of the daemon.
#include <fmt/format.h>

#include <filesystem>

#include "base/text.h"
#include "cli/job.h"
#include "cli/verbs/verbs.h"

namespace vrampool::cli {
namespace {

namespace fs = std::filesystem;

// The daemon has another working directory. A directory stands for the model files in it.
Result<std::vector<std::string>> absolute_paths(const std::vector<std::string>& given) {
  std::vector<std::string> out;
  for (const std::string& path : given) {
    std::error_code failed;
    const fs::path whole = fs::canonical(path, failed);
    if (failed) return error(VP_NOT_FOUND, "{}: {}", path, failed.message());
    out.push_back(whole.string());
  }
  return out;
}

// "dir/model-00001-of-00003.safetensors" -> "model".
std::string name_from(const std::string& path) {
  std::string name = fs::path(path).filename().string();
  for (const char* ending : {".index.json", ".safetensors", ".gguf"}) {
    if (name.ends_with(ending)) name.erase(name.size() - std::string_view(ending).size());
  }
  if (const std::size_t shard = name.rfind("-00001-of-"); shard != std::string::npos) name.erase(shard);
  for (char& ch : name) {
    if (ch <= ' ' || ch > '~' || ch == '\\') ch = '_';
  }
  return name;
}

}  // namespace

Result<int> run_import(const Invocation& in) {
  wire::ImportJobT request;
  VP_TRY(paths, absolute_paths(in.all("file")));
  request.name = in.text("--name", name_from(paths.front()));
  VP_CHECK(check_name(request.name));
  request.paths = std::move(paths);
  request.layout = in.text("--layout", "aligned") == "file" ? wire::LayoutMode::file : wire::LayoutMode::aligned;
  request.placement = in.text("--placement", in.has("--node") ? "nodes" : "spread");
  request.nodes = in.all("--node");
  request.keep = in.has("--keep");
  request.mode = 0644;
  const std::string done = fmt::format("imported {}", request.name);
  return run_job(in, std::move(request), "import", done);
}

}  // namespace vrampool::cli
