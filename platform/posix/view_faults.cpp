// The factory of the daemon's side of a view.
#include "platform/view_faults.h"

#include "platform/posix/native_source.h"

namespace vrampool::platform {

Result<std::unique_ptr<ViewFaults>> ViewFaults::attach(FaultSourceKind kind, AttachDescriptors descriptors,
                                                       std::uint64_t client_base, std::uint64_t bytes) {
  const std::uint64_t granule = fault_granule_bytes();
  const bool good =
      bytes > 0 && bytes % granule == 0 && client_base % granule == 0 && client_base + bytes > client_base;
  if (!good) return error(VP_INVALID, "a client asked to serve a view of {} bytes, not whole pages", bytes);
  return kind == FaultSourceKind::posix ? signal_view_faults(std::move(descriptors), bytes)
                                        : native_view_faults(std::move(descriptors), client_base, bytes);
}

}  // namespace vrampool::platform
