// vrampool: shows and steers the pool. Parses, runs one verb, turns its error into a line and an exit code.
#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <exception>

#include "cli/parse.h"
#include "cli/print.h"

using namespace vrampool;

namespace {

int report(const Error& failure, const cli::Invocation& in) {
  if (in.json) {
    auto doc = cli::document("error");
    doc["code"] = static_cast<int>(failure.code);
    doc["message"] = failure.message;
    cli::print_json(doc);
  }
  fmt::print(stderr, "vrampool: {}\n", failure.message);
  return failure.code == VP_UNREACHABLE ? cli::kNoDaemon : cli::kFailed;
}

int run(int argc, char** argv) {
  const cli::Parsed parsed = cli::parse(argc, argv);
  if (parsed.command == nullptr) {
    std::fputs(parsed.text.c_str(), parsed.exit_code == cli::kFine ? stdout : stderr);
    return parsed.exit_code;
  }
  auto code = parsed.command->run(parsed.invocation);
  return code ? *code : report(code.error(), parsed.invocation);
}

}  // namespace

int main(int argc, char** argv) {
  // A closed pipe ends a write with an error instead of the process.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return run(argc, argv);
  } catch (const std::exception& bug) {
    fmt::print(stderr, "vrampool: a fault of this program: {}\n", bug.what());
    return cli::kFailed;
  }
}
