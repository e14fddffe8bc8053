// vrampool help: the same as <command> --help.
#include "cli/help.h"

#include <fmt/format.h>

#include <cstdio>

#include "cli/verbs/verbs.h"

namespace vrampool::cli {

Result<int> run_help(const Invocation& in) {
  if (in.has("--paths")) {
    for (const Command& c : commands()) fmt::print("{}\n", c.path);
    return kFine;
  }
  std::string path;
  for (const std::string& word : in.all("command")) path += (path.empty() ? "" : " ") + word;
  if (path.empty()) {
    std::fputs(help_overview().c_str(), stdout);
  } else if (const Command* c = find_command(path)) {
    std::fputs(help_text(*c).c_str(), stdout);
  } else if (path == "bench") {
    std::fputs(help_group(path).c_str(), stdout);
  } else {
    return error(VP_NOT_FOUND, "there is no command {} (see vrampool --help)", path);
  }
  return kFine;
}

}  // namespace vrampool::cli
