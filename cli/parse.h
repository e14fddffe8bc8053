// From argv to a command and its values.
#pragma once

#include "cli/command.h"

namespace vrampool::cli {

struct Parsed {
  const Command* command = nullptr;
  Invocation invocation;
  std::string text;  // when not empty: print it and leave with `exit_code`
  int exit_code = kFine;
};

// Never fails: a usage error is a text and kUsage.
Parsed parse(int argc, const char* const* argv);

}  // namespace vrampool::cli
