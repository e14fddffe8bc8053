// Names of fault sources and the unit in which views fault.
#include "platform/fault_source.h"

#include <algorithm>

#include "platform/machine.h"

namespace vrampool::platform {

std::string_view to_text(FaultSourceKind kind) {
  return kind == FaultSourceKind::userfaultfd ? "userfaultfd" : "posix";
}

bool parse_fault_source(std::string_view text, FaultSourceKind& out) {
  if (text != "userfaultfd" && text != "posix") return false;
  out = text == "posix" ? FaultSourceKind::posix : FaultSourceKind::userfaultfd;
  return true;
}

// A kernel with 64 KiB pages (some arm64 servers) cannot protect 16 KiB; there a view faults in 64 KiB.
std::size_t fault_granule_bytes() { return std::max(kPageBytes, page_bytes()); }

}  // namespace vrampool::platform
