// What a process arranges for itself at start: descriptors, OOM rank, thread names, quiet SIGPIPE, watch of a peer.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/unique_fd.h"

namespace vrampool::platform {

// Raises the soft limit of open descriptors to `wanted`, or to the hard limit if that is lower. Returns what holds now.
// A daemon keeps one or two descriptors per object and view.
Result<std::uint64_t> raise_descriptor_limit(std::uint64_t wanted);

// Linux: -1000 (never killed) .. 1000 (first). Lowering needs a privilege: VP_DENIED. macOS: does nothing, succeeds.
Status set_oom_score_adjust(int score);

// Shown by ps and debuggers; cut to 15 characters.
void name_this_thread(const char* name);

// A write to a closed socket becomes an error instead of the death of the process.
void block_sigpipe();

// Becomes readable in a Poller when process `pid` ends (pidfd; a kqueue on macOS). VP_NOT_FOUND when it is gone.
Result<UniqueFd> watch_process_end(int pid);

bool process_exists(int pid);

}  // namespace vrampool::platform
