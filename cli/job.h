// Watching a job of the daemon: a progress bar on a terminal, plain lines elsewhere; Ctrl-C cancels it.
#pragma once

#include <csignal>

#include "cli/daemon.h"

namespace vrampool::cli {

// Follows `job` until it ends. With --detach it only says the number. `done` is said at the end ("imported llama").
// Blocking: as long as the job runs. Errors: the job's own, VP_CANCELLED after Ctrl-C.
Result<int> follow_job(const Invocation&, client::Admin&, std::uint64_t job, const std::string& verb,
                       const std::string& done);
// Sends a request that starts a job, then follows it.
template <class Request>
Result<int> run_job(const Invocation& in, Request request, const std::string& verb, const std::string& done) {
  VP_TRY(admin, daemon(in));
  VP_TRY(started, admin.ask<wire::JobStartedT>(std::move(request)));
  return follow_job(in, admin, started.job, verb, done);
}

// While one lives, Ctrl-C sets a flag instead of ending the process; a second Ctrl-C ends it. They may nest.
class CatchInterrupt {
 public:
  CatchInterrupt();
  ~CatchInterrupt();
  CatchInterrupt(const CatchInterrupt&) = delete;
  CatchInterrupt& operator=(const CatchInterrupt&) = delete;
  static bool happened();

 private:
  struct sigaction old_int_ {};
  struct sigaction old_term_ {};
};

}  // namespace vrampool::cli
