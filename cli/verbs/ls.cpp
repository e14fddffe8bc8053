// vrampool ls: the segments of the pool.
#include <fmt/format.h>

#include "cli/daemon.h"
#include "cli/verbs/verbs.h"
#include "cli/views.h"

namespace vrampool::cli {

Result<int> run_ls(const Invocation& in) {
  VP_TRY(doc, ask(in, "ls", in.all("prefix")));
  const json::array& all = list_of(doc, "segments");
  if (in.json) {
    print_json(doc);
    return kFine;
  }
  if (in.has("--names")) {
    for (const json::value& s : all) fmt::print("{}\n", text_of(s, "name"));
    return kFine;
  }
  if (all.empty()) fmt::print("no segments; vrampool import brings a model in\n");
  if (!all.empty()) print_segments(in, all);
  return kFine;
}

}  // namespace vrampool::cli
