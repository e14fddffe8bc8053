// vrampool rename: gives a segment another name.
#include <fmt/format.h>

#include "cli/daemon.h"
#include "cli/verbs/verbs.h"

namespace vrampool::cli {

Result<int> run_rename(const Invocation& in) {
  VP_TRY(admin, daemon(in));
  wire::RenameSegmentT request;
  request.from = in.text("name");
  request.to = in.text("new-name");
  VP_CHECK(admin.order(request));
  return say(in, "rename", fmt::format("{} is called {} now", request.from, request.to));
}

}  // namespace vrampool::cli
