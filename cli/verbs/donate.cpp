// vrampool donate: changes how much memory this node donates.
#include <fmt/format.h>

#include "cli/daemon.h"
#include "cli/verbs/verbs.h"

namespace vrampool::cli {

Result<int> run_donate(const Invocation& in) {
  const std::string size = in.text("size");
  return order(in, "donate", {size}, {}, fmt::format("this node donates {} now", size));
}

}  // namespace vrampool::cli
