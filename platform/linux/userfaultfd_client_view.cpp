// The client's side of a view on userfaultfd: maps cache parts, registers them, keeps its own descriptor open.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "platform/linux/userfaultfd.h"
#include "platform/machine.h"
#include "platform/poller.h"
#include "platform/posix/memory_range.h"
#include "platform/posix/native_source.h"
#include "platform/posix/poison_page.h"
#include "platform/process.h"

namespace vrampool::platform {

namespace {

// How often the poisoner makes waiters fault again, in case another reader of the descriptor took their event; and how
// soon after it took an event that was for another reader.
constexpr int kReplayEveryMs = 100;
constexpr int kReplaySoonMs = 10;

std::uint64_t address_of(const std::byte* p) { return reinterpret_cast<std::uintptr_t>(p); }

class UserfaultfdClientView final : public ClientView {
 public:
  UserfaultfdClientView(const ClientViewOptions& options, std::byte* base, uffd::Opened opened)
      : ClientView(base, options.bytes, options.access),
        fd_(std::move(opened.fd)),
        user_mode_only_(opened.user_mode_only) {}
  ~UserfaultfdClientView() override;

  FaultSourceKind kind() const override { return FaultSourceKind::userfaultfd; }
  Status map_cache(std::uint64_t view_offset, int fd, std::uint64_t object_offset, std::uint64_t bytes) override;
  Result<AttachDescriptors> attach_descriptors() override;
  Status poison_here(std::uint64_t view_offset, std::uint64_t bytes) override;
  std::uint64_t pages_poisoned() const override { return pages_poisoned_.load(); }
  bool serves_system_calls() const override { return !user_mode_only_; }

 private:
  void poison_until_stopped();
  bool answer(const uffd_msg& message);
  void poison_granule(std::uint64_t offset);
  void copy_poison(std::uint64_t offset, std::uint64_t bytes);

  UniqueFd fd_;
  bool user_mode_only_;
  PoisonedRanges poisoned_;
  std::atomic<std::uint64_t> pages_poisoned_{0};
  std::optional<Doorbell> stop_;
  std::thread poisoner_;
  std::vector<std::byte> pattern_;
};

UserfaultfdClientView::~UserfaultfdClientView() {
  if (poisoner_.joinable()) {
    stop_->ring();
    poisoner_.join();
  }
  // Unmap before fd_ closes: with its last descriptor a registration ends, and holes would read as zeros.
  release_range(base_, bytes_);
}

Status UserfaultfdClientView::map_cache(std::uint64_t view_offset, int fd, std::uint64_t object_offset,
                                        std::uint64_t bytes) {
  VP_CHECK(check_part(view_offset, object_offset, bytes));
  std::byte* at = base_ + view_offset;
  // Registration asks for a mapping that could become writable: a read-only descriptor must be mapped private (EPERM
  // else).
  const bool writes = access_ == PageAccess::write;
  const int rights = writes ? PROT_READ | PROT_WRITE : PROT_READ;
  const int flags = MAP_FIXED | (writes ? MAP_SHARED : MAP_PRIVATE);
  if (::mmap(at, bytes, rights, flags, fd, static_cast<off_t>(object_offset)) == MAP_FAILED)
    return error_errno(errno, "mapping a cache object into a view");
  VP_CHECK(keep_private(at, bytes));
  forbid_huge_pages(at, bytes);
  const int rc = uffd::register_range(fd_.get(), address_of(at), bytes);
  if (rc == 0) return {};
  // Nobody may read holes of an unregistered mapping: they are zeros, and would be planted in the object.
  ::mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  return error(VP_UNSUPPORTED,
               "this kernel does not let a view fault through userfaultfd ({}); use the posix fault source",
               ::strerror(rc));
}

Result<AttachDescriptors> UserfaultfdClientView::attach_descriptors() {
  UniqueFd copy(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy) return error_errno(errno, "duplicating a userfaultfd");
  AttachDescriptors descriptors;
  descriptors.push_back(std::move(copy));
  return descriptors;
}

Status UserfaultfdClientView::poison_here(std::uint64_t view_offset, std::uint64_t bytes) {
  VP_ASSERT(holds(view_offset, bytes));
  if (!poisoned_.add(view_offset, bytes))
    return error(VP_BUSY, "too many poisoned ranges in one view; poison it whole");
  if (!poisoner_.joinable()) {
    VP_TRY(bell, Doorbell::create());
    stop_.emplace(std::move(bell));
    pattern_.assign(fault_granule_bytes(), std::byte{kPoisonByte});
    poisoner_ = std::thread([this] { poison_until_stopped(); });
  }
  uffd::wake(fd_.get(), address_of(base_), bytes_);
  return {};
}

void UserfaultfdClientView::poison_until_stopped() {
  name_this_thread("vp-poison");
  std::array<uffd_msg, 16> messages;
  bool took_others = false;
  for (;;) {
    pollfd wait[2] = {{fd_.get(), POLLIN, 0}, {stop_->fd(), POLLIN, 0}};
    const int ready = ::poll(wait, 2, took_others ? kReplaySoonMs : kReplayEveryMs);
    if (wait[1].revents != 0) return;
    if (ready == 0) uffd::wake(fd_.get(), address_of(base_), bytes_);
    const int n = uffd::read_messages(fd_.get(), messages);
    if (n > 0 || ready == 0) took_others = false;
    for (int i = 0; i < n; ++i) took_others = !answer(messages[static_cast<std::size_t>(i)]) || took_others;
  }
}

// False when the event was for another reader: its page comes again with the next replay.
bool UserfaultfdClientView::answer(const uffd_msg& message) {
  if (message.event != UFFD_EVENT_PAGEFAULT) return true;
  const std::uint64_t granule = fault_granule_bytes();
  const std::uint64_t offset = (message.arg.pagefault.address - address_of(base_)) / granule * granule;
  if (offset >= bytes_ || !poisoned_.holds(offset)) return false;
  poison_granule(offset);
  return true;
}

void UserfaultfdClientView::poison_granule(std::uint64_t offset) {
  const std::uint64_t bytes = fault_granule_bytes();
  pages_poisoned_.fetch_add(1);
  // Read-only views map privately: a copy stays ours. In a shared mapping it would land in the object, so the page is
  // replaced.
  if (access_ == PageAccess::read)
    copy_poison(offset, bytes);
  else
    poison_pages(base_ + offset, bytes, access_);
  uffd::wake(fd_.get(), address_of(base_) + offset, bytes);
}

void UserfaultfdClientView::copy_poison(std::uint64_t offset, std::uint64_t bytes) {
  const std::uint64_t small = page_bytes();
  for (std::uint64_t at = 0; at < bytes;) {
    std::uint64_t done = 0;
    const int rc = uffd::copy(fd_.get(), address_of(base_) + offset + at, pattern_.data() + at, bytes - at, done);
    at += done;
    if (rc == EEXIST)
      at += small;  // a part is there already
    else if (rc != 0 && rc != EAGAIN)
      return;
  }
}

}  // namespace

Result<std::unique_ptr<ClientView>> native_client_view(const ClientViewOptions& options, std::byte* base) {
  uffd::Opened opened = uffd::open(options.device_fd);
  if (!opened.fd) return error(VP_UNSUPPORTED, "userfaultfd is not to be had here: {}", ::strerror(opened.error));
  if (uffd::enable(opened.fd.get(), uffd::kFeaturesFull) != 0)
    return error(VP_UNSUPPORTED, "this kernel's userfaultfd lacks what lazy views need; that is Linux 6.4");
  return std::unique_ptr<ClientView>(std::make_unique<UserfaultfdClientView>(options, base, std::move(opened)));
}

}  // namespace vrampool::platform
