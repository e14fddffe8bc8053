// The daemon's side of a view on userfaultfd.
#include <errno.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "platform/linux/userfaultfd.h"
#include "platform/machine.h"
#include "platform/posix/native_source.h"

namespace vrampool::platform {

namespace {

// The client's mappings may be changing; more tries than this are its own doing and not worth the engine's time.
constexpr int kTriesMax = 16;

class UserfaultfdViewFaults final : public ViewFaults {
 public:
  UserfaultfdViewFaults(UniqueFd fd, std::uint64_t client_base, std::uint64_t bytes)
      : ViewFaults(bytes),
        fd_(std::move(fd)),
        base_(client_base),
        granule_(fault_granule_bytes()),
        small_page_(page_bytes()) {}

  FaultSourceKind kind() const override { return FaultSourceKind::userfaultfd; }
  int fd() const override { return fd_.get(); }
  std::size_t read_events(std::span<ViewEvent> out) override;
  Revealed reveal(std::uint64_t offset, std::uint64_t bytes, PageAccess access) override;
  RevokeState revoke(std::uint64_t offset, std::uint64_t bytes, PageAccess left) override;
  void wake(std::uint64_t offset, std::uint64_t bytes) override { uffd::wake(fd_.get(), base_ + offset, bytes); }

 private:
  struct Walk {
    std::uint64_t at = 0;  // bytes of the range that are dealt with
    int tries = 0;
    bool met_mapped = false;
    Revealed result;
  };
  bool translate(const uffd_msg& message, ViewEvent& event) const;
  void step_over(int why, Walk& walk) const;
  void settle_mapped(std::uint64_t offset, std::uint64_t bytes, PageAccess access, Walk& walk) const;

  UniqueFd fd_;
  std::uint64_t base_;
  std::uint64_t granule_;
  std::uint64_t small_page_;
};

bool UserfaultfdViewFaults::translate(const uffd_msg& message, ViewEvent& event) const {
  const std::uint64_t address = message.arg.pagefault.address;
  if (message.event != UFFD_EVENT_PAGEFAULT || address < base_ || address - base_ >= bytes_) return false;
  const std::uint64_t flags = message.arg.pagefault.flags;
  event = {ViewEvent::Kind::fault, (flags & (UFFD_PAGEFAULT_FLAG_WRITE | UFFD_PAGEFAULT_FLAG_WP)) != 0,
           (address - base_) / granule_ * granule_, granule_};
  return true;
}

std::size_t UserfaultfdViewFaults::read_events(std::span<ViewEvent> out) {
  std::array<uffd_msg, 32> messages;
  std::size_t count = 0;
  while (count < out.size()) {
    const std::size_t room = std::min(messages.size(), out.size() - count);
    const int n = uffd::read_messages(fd_.get(), std::span(messages.data(), room));
    if (n < 0) out[count++] = {ViewEvent::Kind::gone, false, 0, bytes_};
    for (int i = 0; i < n; ++i) count += translate(messages[static_cast<std::size_t>(i)], out[count]) ? 1 : 0;
    if (n < static_cast<int>(room)) break;
  }
  return count;
}

// What a stopped CONTINUE means, and how to go on. A call stops at the first page that is mapped already or absent,
// having mapped those before it.
void UserfaultfdViewFaults::step_over(int why, Walk& walk) const {
  if (why == EEXIST) {
    walk.met_mapped = true;
    walk.at += small_page_;
  } else if (why == EFAULT) {
    walk.result.absent.set(walk.at / granule_);
    walk.at = walk.at / granule_ * granule_ + granule_;
  } else if ((why == EAGAIN || why == ENOMEM) && ++walk.tries < kTriesMax) {
    ::sched_yield();
  } else if (why == EAGAIN || why == ENOMEM) {
    walk.result.again = true;
  } else {
    walk.result.gone = true;  // ESRCH: dead. ENOENT, EINVAL: it unmapped or changed the range.
  }
}

// A page that was mapped before is neither woken nor made writable by CONTINUE.
void UserfaultfdViewFaults::settle_mapped(std::uint64_t offset, std::uint64_t bytes, PageAccess access,
                                          Walk& walk) const {
  if (access == PageAccess::read) {
    uffd::wake(fd_.get(), base_ + offset, bytes);
    return;
  }
  const int rc = uffd::write_protect(fd_.get(), base_ + offset, bytes, false);
  if (rc == EAGAIN || rc == ENOMEM)
    walk.result.again = true;
  else if (rc != 0)
    walk.result.gone = true;
}

Revealed UserfaultfdViewFaults::reveal(std::uint64_t offset, std::uint64_t bytes, PageAccess access) {
  VP_ASSERT(holds(offset, bytes) && bytes <= kRevealBytesMax && offset % granule_ == 0 && bytes % granule_ == 0);
  VP_ASSERT(access != PageAccess::none);
  Walk walk;
  while (walk.at < bytes && !walk.result.gone && !walk.result.again) {
    std::uint64_t done = 0;
    const int rc =
        uffd::continue_range(fd_.get(), base_ + offset + walk.at, bytes - walk.at, access == PageAccess::read, done);
    walk.at += done;
    if (rc != 0 && done == 0) step_over(rc, walk);
  }
  if (walk.met_mapped && !walk.result.gone) settle_mapped(offset, bytes, access, walk);
  walk.result.pages = static_cast<std::uint32_t>(walk.at / granule_ - walk.result.absent.count());
  return walk.result;
}

RevokeState UserfaultfdViewFaults::revoke(std::uint64_t offset, std::uint64_t bytes, PageAccess left) {
  VP_ASSERT(holds(offset, bytes));
  // The hole that the caller punches next takes the pages from every client; nothing must come before it.
  if (left != PageAccess::read) return RevokeState::done;
  for (int tries = 0;; ++tries) {
    const int rc = uffd::write_protect(fd_.get(), base_ + offset, bytes, true);
    if (rc == 0) return RevokeState::done;
    if (rc != EAGAIN && rc != ENOMEM) return RevokeState::gone;
    if (tries == kTriesMax) return RevokeState::full;
    ::sched_yield();
  }
}

bool is_userfaultfd(int fd) {
  char text[64];
  const ssize_t n = ::readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), text, sizeof text);
  return n > 0 && std::string_view(text, static_cast<std::size_t>(n)) == "anon_inode:[userfaultfd]";
}

}  // namespace

Result<std::unique_ptr<ViewFaults>> native_view_faults(AttachDescriptors descriptors, std::uint64_t client_base,
                                                       std::uint64_t bytes) {
  if (descriptors.size() != 1 || !is_userfaultfd(descriptors[0].get()))
    return error(VP_INVALID, "a client sent no userfaultfd for its view");
  auto faults = std::make_unique<UserfaultfdViewFaults>(std::move(descriptors[0]), client_base, bytes);
  // After a daemon restart: events that the dead daemon had read are raised again.
  faults->wake(0, bytes);
  return std::unique_ptr<ViewFaults>(std::move(faults));
}

}  // namespace vrampool::platform
