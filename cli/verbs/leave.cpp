// vrampool leave: this node leaves its pool in order.
#include <fmt/format.h>

#include "cli/daemon.h"
#include "cli/verbs/verbs.h"

namespace vrampool::cli {

Result<int> run_leave(const Invocation& in) {
  return order(in, "leave", {}, {{"force", in.has("--force")}}, "left the pool");
}

}  // namespace vrampool::cli
