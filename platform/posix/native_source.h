// The system's own fault source, where it has one; for the factories of ClientView and ViewFaults.
#pragma once

#include <memory>

#include "platform/client_view.h"
#include "platform/view_faults.h"

namespace vrampool::platform {

// VP_UNSUPPORTED with the reason where there is none.
Result<std::unique_ptr<ClientView>> native_client_view(const ClientViewOptions& options, std::byte* base);
Result<std::unique_ptr<ViewFaults>> native_view_faults(AttachDescriptors descriptors, std::uint64_t client_base,
                                                       std::uint64_t bytes);

// The signal handler source, everywhere.
Result<std::unique_ptr<ClientView>> signal_client_view(const ClientViewOptions& options, std::byte* base);
Result<std::unique_ptr<ViewFaults>> signal_view_faults(AttachDescriptors descriptors, std::uint64_t bytes);

}  // namespace vrampool::platform
