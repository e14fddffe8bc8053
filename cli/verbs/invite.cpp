// vrampool invite: the line that lets another machine join.
#include <fmt/format.h>
#include <unistd.h>

#include "cli/daemon.h"
#include "cli/verbs/verbs.h"

namespace vrampool::cli {

Result<int> run_invite(const Invocation& in) {
  std::string line;
  VP_TRY(doc, ask(in, "invite", {}, {}, &line));
  if (in.json) {
    print_json(doc);
    return kFine;
  }
  const std::string token = text_of(doc, "token", line);
  // In a pipe only the command itself goes out, so that it can be run on the other side.
  if (::isatty(STDOUT_FILENO) == 1) fmt::print("on the other machine, with vrampoold running there:\n\n  ");
  fmt::print("vrampool join {}\n", token);
  if (::isatty(STDOUT_FILENO) == 1) fmt::print("\nwhoever has this line can read and write the pool\n");
  return kFine;
}

}  // namespace vrampool::cli
