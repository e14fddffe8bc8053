// vrampool promote: a node becomes the coordinator.
#include <fmt/format.h>

#include "cli/daemon.h"
#include "cli/verbs/verbs.h"

namespace vrampool::cli {

Result<int> run_promote(const Invocation& in) {
  std::vector<std::string> node = in.all("node");
  const std::string who = node.empty() ? "this node" : node.front();
  return order(in, "promote", std::move(node), {{"force", in.has("--force")}}, fmt::format("{} coordinates now", who));
}

}  // namespace vrampool::cli
