// What both kinds of client view share: the reserved range, direct parts, and the factory.
#include "platform/client_view.h"

#include <errno.h>
#include <sys/mman.h>

#include "platform/posix/memory_range.h"
#include "platform/posix/native_source.h"

namespace vrampool::platform {

namespace {

std::uint64_t round_up(std::uint64_t bytes) {
  const std::uint64_t granule = fault_granule_bytes();
  return (bytes + granule - 1) / granule * granule;
}

Result<std::unique_ptr<ClientView>> make(const ClientViewOptions& options, std::byte* base) {
  return options.kind == FaultSourceKind::posix ? signal_client_view(options, base) : native_client_view(options, base);
}

}  // namespace

Result<std::unique_ptr<ClientView>> ClientView::create(const ClientViewOptions& wanted) {
  if (wanted.bytes == 0 || wanted.access == PageAccess::none)
    return error(VP_INVALID, "an empty view cannot be mapped");
  ClientViewOptions options = wanted;
  options.bytes = round_up(wanted.bytes);
  VP_TRY(base, reserve_range(options.bytes, range_alignment(options.bytes)));
  auto view = make(options, base);
  if (!view) release_range(base, options.bytes);
  return view;
}

bool ClientView::holds(std::uint64_t view_offset, std::uint64_t bytes) const {
  return view_offset <= bytes_ && bytes <= bytes_ - view_offset;
}

Status ClientView::check_part(std::uint64_t view_offset, std::uint64_t object_offset, std::uint64_t bytes) const {
  const std::uint64_t granule = fault_granule_bytes();
  const bool aligned = view_offset % granule == 0 && object_offset % granule == 0 && bytes % granule == 0;
  if (bytes == 0 || !aligned || !holds(view_offset, bytes))
    return error(VP_INVALID, "a part of {} bytes at {} does not fit a view of {} bytes in units of {}", bytes,
                 view_offset, bytes_, granule);
  return {};
}

Status ClientView::map_direct(std::uint64_t view_offset, int fd, std::uint64_t object_offset, std::uint64_t bytes) {
  // The last part of a segment may end inside a granule; the rest of that page belongs to the same object.
  if (bytes == 0 || view_offset % fault_granule_bytes() != 0 || object_offset % fault_granule_bytes() != 0 ||
      !holds(view_offset, bytes))
    return error(VP_INVALID, "a direct part of {} bytes at {} does not fit a view of {} bytes", bytes, view_offset,
                 bytes_);
  void* got =
      ::mmap(base_ + view_offset, bytes, PROT_READ, MAP_SHARED | MAP_FIXED, fd, static_cast<off_t>(object_offset));
  if (got == MAP_FAILED) return error_errno(errno, "mapping a piece into a view");
  return keep_private(base_ + view_offset, bytes);
}

}  // namespace vrampool::platform
