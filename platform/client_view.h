// The client's side of a lazy view: one contiguous address range, stitched from directly mapped pieces and faulting
// caches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/fixed_vector.h"
#include "base/result.h"
#include "base/time.h"
#include "base/unique_fd.h"
#include "platform/fault_source.h"

namespace vrampool::platform {

struct ClientViewOptions {
  FaultSourceKind kind = FaultSourceKind::posix;
  std::uint64_t bytes = 0;               // rounded up to the granule
  PageAccess access = PageAccess::read;  // write: map_cache takes a read-write descriptor
  int device_fd = -1;                    // an open /dev/userfaultfd that the daemon passed; borrowed for the call
  // posix: a fault that waits longer poisons its page by itself. 0: wait until served or poison_here.
  Duration fault_deadline{};
};

// Sent to the daemon with AttachView, in this order. userfaultfd: {userfaultfd}; posix: {fault ring, doorbell socket}.
using AttachDescriptors = FixedVector<UniqueFd, 2>;

// Threads: mapping calls one at a time; the memory by any number. Ownership: the range and the fault source; destroying
// the view unmaps it first and then closes, because a closed userfaultfd turns missing pages into zeros. No fork
// inherits the range (a child that touches it gets SIGSEGV), no core dump holds it. Never mremap or munmap it.
class ClientView {
 public:
  // Reserves the range: aligned to 16 KiB, to 2 MiB when that long. VP_UNSUPPORTED (userfaultfd): use posix instead.
  // A posix view needs one service thread in the process, which is started with the first and ends with the last.
  static Result<std::unique_ptr<ClientView>> create(const ClientViewOptions& options);
  // For parts that are all present: map_direct alone, no fault source, no signal handler, no descriptor kept.
  static Result<std::unique_ptr<ClientView>> create_direct(std::uint64_t bytes);
  virtual ~ClientView() = default;

  std::byte* base() const { return base_; }
  std::uint64_t bytes() const { return bytes_; }
  virtual FaultSourceKind kind() const = 0;

  // Maps a part of a sealed object that lies whole on this machine: read-only, never faults.
  Status map_direct(std::uint64_t view_offset, int fd, std::uint64_t object_offset, std::uint64_t bytes);
  // Maps a part of a cache object: every page is missing until the daemon reveals it. `fd` is O_RDONLY for read access,
  // O_RDWR for write access; not kept. Offsets and bytes are multiples of the granule.
  virtual Status map_cache(std::uint64_t view_offset, int fd, std::uint64_t object_offset, std::uint64_t bytes) = 0;

  // What the daemon needs to serve this view. Call again after a daemon restart: waiting threads are then served by the
  // new daemon (and never read zeros in between).
  virtual Result<AttachDescriptors> attach_descriptors() = 0;

  // The daemon is gone past the deadline: from now on missing pages of the range read as 0xFF (NaN in every float
  // format), and threads that wait there go on. Pages are filled when touched. Final for this view: map it anew when
  // the daemon is back. Call on a writing view only when losing its unsent writes is decided.
  virtual Status poison_here(std::uint64_t view_offset, std::uint64_t bytes) = 0;
  // How many pages this process poisoned by itself: above 0 the view's bytes are not the segment's.
  virtual std::uint64_t pages_poisoned() const = 0;

  // True when system calls on missing pages are served (userfaultfd with kernel faults); else touch buffers first.
  virtual bool serves_system_calls() const = 0;

 protected:
  ClientView(std::byte* base, std::uint64_t bytes, PageAccess access) : base_(base), bytes_(bytes), access_(access) {}
  bool holds(std::uint64_t view_offset, std::uint64_t bytes) const;
  Status check_part(std::uint64_t view_offset, std::uint64_t object_offset, std::uint64_t bytes) const;
  std::byte* base_;
  std::uint64_t bytes_;
  PageAccess access_;
};

}  // namespace vrampool::platform
