// The bare cost of a page fault that another process resolves: userfaultfd, fill through an alias, CONTINUE.
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "bench/baselines.h"
#include "bench/child.h"
#include "platform/shared_object.h"
#include "platform/unix_socket.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

namespace vrampool::bench {
namespace {

constexpr Duration kPatience = Duration::seconds(10);

// The client's side: maps the object, registers it, and touches as many pages as it is told to.
class Toucher {
 public:
  bool prepare(int object, std::size_t bytes) {
    void* at = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, object, 0);
    fd_ = UniqueFd(static_cast<int>(::syscall(__NR_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY)));
    if (at == MAP_FAILED || !fd_) return false;
    base_ = static_cast<const volatile std::byte*>(at);
    uffdio_api api{};
    api.api = UFFD_API;
    api.features = UFFD_FEATURE_MISSING_SHMEM | UFFD_FEATURE_MINOR_SHMEM;
    uffdio_register range{};
    range.range = {reinterpret_cast<std::uintptr_t>(at), bytes};
    range.mode = UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_MINOR;
    return ::ioctl(fd_.get(), UFFDIO_API, &api) == 0 && ::ioctl(fd_.get(), UFFDIO_REGISTER, &range) == 0;
  }
  // Tells where the mapping lies (0: this system cannot), hands over the descriptor, then serves.
  void serve(int object, std::size_t bytes, int control) {
    const bool ok = prepare(object, bytes);
    const std::uint64_t where = ok ? reinterpret_cast<std::uintptr_t>(base_) : 0;
    const int descriptor = fd_.get();
    const std::span<const int> beside = ok ? std::span(&descriptor, 1) : std::span<const int>{};
    if (!platform::send_all(control, std::as_bytes(std::span(&where, 1)), beside, kPatience) || !ok) return;
    platform::DescriptorList none;
    std::uint64_t touches = 0;
    while (
        platform::receive_all(control, std::as_writable_bytes(std::span(&touches, 1)), none, Duration::seconds(3600))) {
      std::vector<std::uint64_t> ns(touches);
      for (std::uint64_t i = 0; i < touches; ++i) {
        const std::int64_t start = now_ns();
        (void)base_[i * kPageBytes];
        ns[i] = static_cast<std::uint64_t>(now_ns() - start);
      }
      if (!platform::send_all(control, std::as_bytes(std::span(ns)), {}, kPatience)) return;
    }
  }

 private:
  UniqueFd fd_;
  const volatile std::byte* base_ = nullptr;
};

struct Fault {
  platform::SharedObject object;
  std::vector<Child> children;
  UniqueFd control, uffd;
  std::uint64_t base = 0;
  std::vector<std::byte> page = std::vector<std::byte>(kPageBytes, std::byte{0x5a});

  Status resolve() {
    uffd_msg event{};
    if (::read(uffd.get(), &event, sizeof event) != sizeof event) return {};
    const std::uint64_t at = (event.arg.pagefault.address - base) / kPageBytes * kPageBytes;
    std::memcpy(object.memory().data() + at, page.data(), kPageBytes);
    uffdio_continue go{};
    go.range = {base + at, kPageBytes};
    if (::ioctl(uffd.get(), UFFDIO_CONTINUE, &go) != 0 && errno != EEXIST)
      return error_errno(errno, "resolving a bare page fault");
    return {};
  }
  // Resolves faults until the child has reported.
  Status batch(std::uint64_t touches, Samples& s) {
    VP_CHECK(object.release(0, object.bytes()));
    VP_CHECK(platform::send_all(control.get(), std::as_bytes(std::span(&touches, 1)), {}, kPatience));
    for (;;) {
      pollfd watched[2] = {{uffd.get(), POLLIN, 0}, {control.get(), POLLIN, 0}};
      if (::poll(watched, 2, 10000) <= 0) return error(VP_TIMEOUT, "the bare page fault stands still");
      if (watched[0].revents & POLLIN) VP_CHECK(resolve());
      if (watched[1].revents != 0) break;
    }
    const std::size_t before = s.ns.size();
    s.ns.resize(before + touches);
    platform::DescriptorList none;
    return platform::receive_all(control.get(), std::as_writable_bytes(std::span(s.ns).subspan(before)), none,
                                 kPatience);
  }
  Result<Samples> run(std::size_t n) {
    Samples s;
    s.bytes_per_op = kPageBytes;
    const CpuMeter cpu(children);
    const std::size_t pages = object.bytes() / kPageBytes;
    while (s.ns.size() < n) VP_CHECK(batch(std::min(pages, n - s.ns.size()), s));
    s.cpu_ns = cpu.ns();
    return s;
  }
};

}  // namespace

Result<Measured> bare_fault(std::uint32_t pages) {
  auto fault = std::make_shared<Fault>();
  VP_TRY(object, platform::create_unnamed_object("vrampool-bench", pages * kPageBytes));
  VP_TRY(pair, platform::socket_pair());
  VP_TRY(child, Child::start([&] { Toucher().serve(object.fd(), object.bytes(), pair.second.get()); }));
  fault->children.push_back(std::move(child));
  VP_CHECK(object.map(platform::MapUse::cache));
  fault->object = std::move(object);
  fault->control = std::move(pair.first);
  platform::DescriptorList descriptors;
  VP_CHECK(platform::receive_all(fault->control.get(), std::as_writable_bytes(std::span(&fault->base, 1)), descriptors,
                                 kPatience));
  if (fault->base == 0 || descriptors.empty())
    return error(VP_UNSUPPORTED,
                 "this system refuses userfaultfd with minor faults on shared memory; see `vrampool doctor`");
  fault->uffd = std::move(descriptors[0]);
  return Measured{"bare page fault, resolved by another process", [fault](std::size_t n) { return fault->run(n); }};
}

}  // namespace vrampool::bench
