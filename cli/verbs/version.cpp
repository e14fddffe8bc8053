// vrampool version: of this program, and of the daemon if one answers.
#include "cli/version.h"

#include <fmt/format.h>

#include "cli/daemon.h"
#include "cli/verbs/verbs.h"

namespace vrampool::cli {

Result<int> run_version(const Invocation& in) {
  const auto status = ask(in, "status");
  const std::string theirs = status ? text_of(at(*status, "node"), "version", "") : std::string();
  if (in.json) {
    json::object doc = document("version");
    doc["program"] = kVersion;
    doc["daemon"] = theirs.empty() ? json::value() : json::value(theirs);
    print_json(doc);
    return kFine;
  }
  fmt::print("vrampool {}\n", kVersion);
  if (!theirs.empty()) fmt::print("vrampoold {}\n", theirs);
  return kFine;
}

}  // namespace vrampool::cli
