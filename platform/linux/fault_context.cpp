// Linux: whether a fault wanted to write, from the signal's machine context.
#include <stdint.h>
#include <ucontext.h>

#include "platform/posix/fault_handler.h"

namespace vrampool::platform {

#if defined(__x86_64__)
// Page-fault error code, bit 1: write (Intel SDM 4.7).
bool fault_was_write(const void* signal_context) {
  return (static_cast<const ucontext_t*>(signal_context)->uc_mcontext.gregs[REG_ERR] & 2) != 0;
}
#elif defined(__aarch64__)
// The ESR record of the context, WnR is bit 6 (asm/sigcontext.h, Arm ARM D17.2.37).
bool fault_was_write(const void* signal_context) {
  struct Record {
    uint32_t magic;
    uint32_t size;
  };
  constexpr uint32_t kEsrMagic = 0x45535201;
  const auto* at =
      reinterpret_cast<const char*>(&static_cast<const ucontext_t*>(signal_context)->uc_mcontext.__reserved);
  for (int i = 0; i < 16; ++i) {
    const auto* record = reinterpret_cast<const Record*>(at);
    if (record->magic == kEsrMagic) return (*reinterpret_cast<const uint64_t*>(at + sizeof(Record)) & (1u << 6)) != 0;
    if (record->magic == 0 || record->size == 0) return false;
    at += record->size;
  }
  return false;
}
#else
bool fault_was_write(const void*) { return false; }
#endif

}  // namespace vrampool::platform
