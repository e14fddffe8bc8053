// A client view without a fault source, for memory that is all present: resident maps, pieces that lie here.
#include "platform/client_view.h"
#include "platform/posix/memory_range.h"

namespace vrampool::platform {

namespace {

class DirectClientView final : public ClientView {
 public:
  DirectClientView(std::byte* base, std::uint64_t bytes) : ClientView(base, bytes, PageAccess::read) {}
  ~DirectClientView() override { release_range(base_, bytes_); }

  FaultSourceKind kind() const override { return FaultSourceKind::posix; }
  Status map_cache(std::uint64_t, int, std::uint64_t, std::uint64_t) override {
    return error(VP_UNSUPPORTED, "a view without a fault source cannot hold pages that may be missing");
  }
  Result<AttachDescriptors> attach_descriptors() override { return AttachDescriptors{}; }
  Status poison_here(std::uint64_t, std::uint64_t) override { return {}; }
  std::uint64_t pages_poisoned() const override { return 0; }
  bool serves_system_calls() const override { return true; }
};

}  // namespace

Result<std::unique_ptr<ClientView>> ClientView::create_direct(std::uint64_t bytes) {
  if (bytes == 0) return error(VP_INVALID, "an empty view cannot be mapped");
  const std::uint64_t granule = fault_granule_bytes();
  const std::uint64_t rounded = (bytes + granule - 1) / granule * granule;
  VP_TRY(base, reserve_range(rounded, range_alignment(rounded)));
  return std::unique_ptr<ClientView>(std::make_unique<DirectClientView>(base, rounded));
}

}  // namespace vrampool::platform
