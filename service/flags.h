// What vrampoold was asked to do on its command line.
#pragma once

#include "service/config.h"

namespace vrampool::service {

enum class Command { serve, check_config, cleanup, print_and_exit };

struct Flags {
  Command command = Command::serve;
  Config config;
  std::string text;  // for print_and_exit: help, version or a usage error
  int exit_code = 0;
};

// Reads the configuration file, then lets flags override it. Errors: those of parse_config.
Result<Flags> parse_flags(int argc, const char* const* argv);

}  // namespace vrampool::service
