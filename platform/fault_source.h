// What both sides of a fault source share: its kinds, which one this machine can have and why.
//
// A fault source lets the daemon decide when a page of a client's lazy view appears. The client's side is
// client_view.h, the daemon's is view_faults.h. Both kinds obey the same rules, and the same tests:
//   - a page is filled through the daemon's alias of the object and only then revealed; nobody sees it half filled;
//   - after eviction the next access faults again; it never reads zeros by itself;
//   - when the daemon dies, clients wait; its successor takes over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/limits.h"

namespace vrampool::platform {

enum class FaultSourceKind : std::uint8_t {
  userfaultfd,  // the kernel asks the daemon; system calls on missing pages are served too
  posix         // a signal handler asks the daemon; system calls on missing pages fail with EFAULT
};
std::string_view to_text(FaultSourceKind kind);
// "userfaultfd", "posix"; false on other text.
bool parse_fault_source(std::string_view text, FaultSourceKind& out);

// What a page of a view may be used for.
enum class PageAccess : std::uint8_t { none = 0, read = 1, write = 2 };

struct FaultSourceProbe {
  FaultSourceKind kind = FaultSourceKind::posix;  // the one to use
  std::string reason;                             // a sentence for people: why this one
  bool user_mode_only = false;                    // userfaultfd, but system calls on missing pages fail (no privilege)
  // The kernel has userfaultfd with write protection but cannot map write-protected in one step (5.19 to 6.3).
  bool lacks_continue_wp = false;
};
// Tries it out on a throw-away descriptor. `device_fd`: an open /dev/userfaultfd, or -1.
// Threads: any. Blocking: no.
FaultSourceProbe probe_fault_source(int device_fd = -1);

// An open /dev/userfaultfd for clients, -1 when there is none or we may not open it. A client that holds it can make a
// userfaultfd that serves system calls too, without any privilege of its own.
int open_fault_device();

// The unit in which views fault: 16 KiB, or the kernel's page where that is larger.
std::size_t fault_granule_bytes();

}  // namespace vrampool::platform
