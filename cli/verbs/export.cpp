// vrampool export: a segment's files back to a directory, byte-exact.
#include <fmt/format.h>

#include <filesystem>

#include "cli/job.h"
#include "cli/verbs/verbs.h"

namespace vrampool::cli {

Result<int> run_export(const Invocation& in) {
  wire::ExportJobT request;
  request.name = in.text("name");
  // The daemon has another working directory.
  request.directory = std::filesystem::absolute(in.text("directory")).lexically_normal().string();
  std::error_code failure;  // the caller's directory, made with the caller's rights
  std::filesystem::create_directories(request.directory, failure);
  if (failure) return error(VP_FAILED, "{}: {}", request.directory, failure.message());
  request.overwrite = in.has("--overwrite");
  const std::string done = fmt::format("exported {} to {}", request.name, request.directory);
  return run_job(in, std::move(request), "export", done);
}

}  // namespace vrampool::cli
