// vrampool verify: reads every byte of a segment and checks it.
#include <fmt/format.h>

#include "cli/job.h"
#include "cli/verbs/verbs.h"

namespace vrampool::cli {

Result<int> run_verify(const Invocation& in) {
  wire::VerifyJobT request;
  request.name = in.text("name");
  const std::string done = fmt::format("{} is whole", request.name);
  return run_job(in, std::move(request), "verify", done);
}

}  // namespace vrampool::cli
