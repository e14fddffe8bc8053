// vrampool completion: a completion script for a shell.
#include <cstdio>

#include "cli/help.h"
#include "cli/verbs/verbs.h"

namespace vrampool::cli {

Result<int> run_completion(const Invocation& in) {
  VP_TRY(script, completion_script(in.text("shell")));
  std::fputs(script.c_str(), stdout);
  return kFine;
}

}  // namespace vrampool::cli
