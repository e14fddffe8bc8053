// vrampool nodes: who is in the pool.
#include <fmt/format.h>

#include "cli/daemon.h"
#include "cli/verbs/verbs.h"
#include "cli/views.h"

namespace vrampool::cli {

Result<int> run_nodes(const Invocation& in) {
  VP_TRY(doc, ask(in, "nodes"));
  if (in.json) {
    print_json(doc);
  } else if (in.has("--names")) {
    for (const json::value& node : list_of(doc, "nodes")) fmt::print("{}\n", text_of(node, "name"));
  } else {
    print_nodes(in, list_of(doc, "nodes"));
  }
  return kFine;
}

}  // namespace vrampool::cli
