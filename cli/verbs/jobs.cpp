// vrampool jobs: imports, exports and checks; or cancels one.
#include <fmt/format.h>

#include "cli/daemon.h"
#include "cli/verbs/verbs.h"
#include "cli/views.h"

namespace vrampool::cli {
namespace {

Result<int> cancel(const Invocation& in) {
  VP_TRY(admin, daemon(in));
  wire::JobCancelT request;
  request.job = in.count("--cancel", 0);
  const std::string said = fmt::format("cancelled job {}", request.job);
  VP_CHECK(admin.order(std::move(request)));
  return say(in, "jobs", said);
}

}  // namespace

Result<int> run_jobs(const Invocation& in) {
  if (in.has("--cancel")) return cancel(in);
  VP_TRY(doc, ask(in, "jobs"));
  const json::array& all = list_of(doc, "jobs");
  if (in.json) {
    print_json(doc);
  } else if (all.empty()) {
    fmt::print("no jobs\n");
  } else {
    print_jobs(in, all);
  }
  return kFine;
}

}  // namespace vrampool::cli
