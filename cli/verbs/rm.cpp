// vrampool rm: removes a segment.
#include <fmt/format.h>

#include "cli/daemon.h"
#include "cli/verbs/verbs.h"

namespace vrampool::cli {

Result<int> run_rm(const Invocation& in) {
  VP_TRY(admin, daemon(in));
  wire::RemoveSegmentT request;
  request.name = in.text("name");
  request.force = in.has("--force");
  VP_CHECK(admin.order(request));
  return say(in, "rm", fmt::format("removed {}", request.name));
}

}  // namespace vrampool::cli
