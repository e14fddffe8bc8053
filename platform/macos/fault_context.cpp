// macOS: whether a fault wanted to write, from the signal's machine context.
#include <sys/ucontext.h>

#include "platform/posix/fault_handler.h"

namespace vrampool::platform {

bool fault_was_write(const void* signal_context) {
  const auto* context = static_cast<const ucontext_t*>(signal_context);
#if defined(__arm64__) || defined(__aarch64__)
  // ESR_EL1 of a data abort: WnR is bit 6 (Arm ARM D17.2.37).
  return (context->uc_mcontext->__es.__esr & (1u << 6)) != 0;
#else
  return (context->uc_mcontext->__es.__err & 2) != 0;
#endif
}

}  // namespace vrampool::platform
