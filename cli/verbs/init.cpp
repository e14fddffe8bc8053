// vrampool init: a new pool with this node as its first member.
#include <fmt/format.h>

#include "cli/daemon.h"
#include "cli/verbs/verbs.h"

namespace vrampool::cli {

Result<int> run_init(const Invocation& in) {
  std::string line;
  VP_TRY(doc, ask(in, "init", {}, {}, &line));
  if (in.json) {
    print_json(doc);
    return kFine;
  }
  fmt::print("made pool {}; this node is its first member and coordinates it\n", text_of(doc, "pool"));
  fmt::print("next: vrampool invite, and on another machine vrampool join\n");
  return kFine;
}

}  // namespace vrampool::cli
