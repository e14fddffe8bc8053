// vrampool join: this node becomes a member of the pool of an invitation.
#include <fmt/format.h>

#include <iostream>

#include "cli/daemon.h"
#include "cli/verbs/verbs.h"

namespace vrampool::cli {
namespace {

// "-" reads a line; a pasted "vrampool join TOKEN" is as good as the token alone.
Result<std::string> token_of(std::string given) {
  if (given == "-" && !std::getline(std::cin, given)) return error(VP_INVALID, "no invitation on standard input");
  given.erase(given.find_last_not_of(" \t\r\n") + 1);
  const std::size_t space = given.rfind(' ');
  return space == std::string::npos ? given : given.substr(space + 1);
}

}  // namespace

Result<int> run_join(const Invocation& in) {
  VP_TRY(token, token_of(in.text("invitation")));
  VP_TRY(doc, ask(in, "join", {token}));
  if (in.json) {
    print_json(doc);
    return kFine;
  }
  fmt::print("joined pool {} as member {}\n", text_of(doc, "pool"), text_of(doc, "member"));
  return kFine;
}

}  // namespace vrampool::cli
