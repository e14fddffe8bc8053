// The process's SIGSEGV and SIGBUS handler, and the table of address ranges it serves. Everything else goes to whoever
// had the signal before us.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/result.h"

namespace vrampool::platform {

// Serves faults of its ranges, on the faulting thread, inside the signal handler.
class FaultReceiver {
 public:
  virtual ~FaultReceiver() = default;
  // True: the access may be tried again. False: it is an error of the program. Must be async-signal-safe.
  virtual bool on_fault(std::uintptr_t address, bool write) = 0;

 private:
  friend bool serve_fault(std::uintptr_t address, bool write);
  friend void wait_until_unused(const FaultReceiver& receiver);
  std::atomic<std::uint32_t> inside_{0};
};

// Installs the handler when it is not installed, or was replaced since (Python's faulthandler, crash reporters): then
// they come after us in the chain.
Status install_fault_handler();
// [from, to) must not overlap a known range. Both may block for a moment; not from signal handlers.
void add_fault_range(std::uintptr_t from, std::uintptr_t to, FaultReceiver* receiver);
void remove_fault_ranges(FaultReceiver* receiver);
// After remove_fault_ranges: returns when no handler is inside the receiver any more.
void wait_until_unused(const FaultReceiver& receiver);

// For the handler: true when a range of ours holds the address and its receiver served it.
bool serve_fault(std::uintptr_t address, bool write);

// By the system: whether the interrupted instruction wanted to write. Unknown counts as reading.
bool fault_was_write(const void* signal_context);

}  // namespace vrampool::platform
