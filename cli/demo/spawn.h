// Child processes that do not outlive this one, and a guardian that tidies up after whatever happens.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace vrampool::cli {

// Starts a program with its output in `log`, out of the terminal's foreground group, so that Ctrl-C reaches only us.
// On Linux it is killed when this process dies, unless `outlives`; elsewhere only an orderly end ends it.
Result<pid_t> spawn_beside(const std::string& program, const std::vector<std::string>& arguments,
                           const std::string& log, bool outlives = false);

// Runs `body` in a child process and returns its exit status; Ctrl-C or SIGTERM kills the child and gives 130. Whatever
// becomes of the child (a crash in mapped memory included), the caller lives on to tidy up.
// REQUIRES: a single thread.
Result<int> run_guarded(const std::function<int()>& body);

// The path of this program, where /proc does not say it.
std::string own_executable();

}  // namespace vrampool::cli
