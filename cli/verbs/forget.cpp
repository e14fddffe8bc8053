// vrampool forget: a node that will not come back goes off the roster.
#include <fmt/format.h>

#include "cli/daemon.h"
#include "cli/verbs/verbs.h"

namespace vrampool::cli {

Result<int> run_forget(const Invocation& in) {
  const std::string node = in.text("node");
  return order(in, "forget", {node}, {{"force", in.has("--force")}}, fmt::format("forgot {}", node));
}

}  // namespace vrampool::cli
