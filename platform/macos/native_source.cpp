// macOS: there is no kernel fault source for user programs; external pagers live in the kernel only.
#include "platform/posix/native_source.h"

namespace vrampool::platform {

FaultSourceProbe probe_fault_source(int) {
  FaultSourceProbe p;
  p.reason =
      "posix: macOS has no userfaultfd; system calls on missing pages fail with EFAULT, so map resident where that "
      "matters";
  return p;
}

int open_fault_device() { return -1; }

Result<std::unique_ptr<ClientView>> native_client_view(const ClientViewOptions&, std::byte*) {
  return error(VP_UNSUPPORTED, "macOS has no userfaultfd; use the posix fault source");
}

Result<std::unique_ptr<ViewFaults>> native_view_faults(AttachDescriptors, std::uint64_t, std::uint64_t) {
  return error(VP_UNSUPPORTED, "macOS has no userfaultfd; use the posix fault source");
}

}  // namespace vrampool::platform
