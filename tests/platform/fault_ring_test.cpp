// Hostile or mismatched clients: the daemon refuses their descriptors or drops them; it never trusts their numbers.
#include "platform/posix/fault_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <new>
#include <thread>

#include "fault_harness.h"
#include "platform/posix/poison_page.h"

using namespace vrampool;
using namespace vrampool::platform;
using namespace vrampool::platform::testing;

namespace {

constexpr std::uint64_t kPages = 8;
constexpr std::uint64_t kViewBytes = kPages * kPageBytes;

// A fault ring with its client's hand in it.
struct FakeClient {
  SharedObject object = create_unnamed_object("vptest", fault_ring_bytes(kPages)).value();
  std::pair<UniqueFd, UniqueFd> bell = socket_pair().value();
  FaultRing* ring = nullptr;
  FakeClient() {
    REQUIRE(object.map(MapUse::cache).ok());
    ring = new (object.memory().data()) FaultRing{};
    ring->magic = kFaultRingMagic;
    ring->version = kFaultRingVersion;
    ring->pages = kPages;
    ring->granule = kPageBytes;
  }
  Result<std::unique_ptr<ViewFaults>> attach(std::uint64_t bytes = kViewBytes) {
    AttachDescriptors d;
    d.push_back(object.read_write_descriptor().value());
    d.push_back(UniqueFd(::fcntl(bell.second.get(), F_DUPFD_CLOEXEC, 0)));
    return ViewFaults::attach(FaultSourceKind::posix, std::move(d), 0x10000000, bytes);
  }
};

AttachDescriptors one(UniqueFd fd) {
  AttachDescriptors d;
  d.push_back(std::move(fd));
  return d;
}

}  // namespace

TEST_CASE("descriptors that are not what they should be are refused") {
  const auto refused = [](FaultSourceKind kind, AttachDescriptors d) {
    const auto r = ViewFaults::attach(kind, std::move(d), 0x10000000, kViewBytes);
    return !r.ok() && (r.error().code == VP_INVALID || r.error().code == VP_UNSUPPORTED);
  };
  CHECK(refused(FaultSourceKind::userfaultfd, {}));
  CHECK(refused(FaultSourceKind::posix, {}));
  CHECK(refused(FaultSourceKind::userfaultfd, one(UniqueFd(::open("/dev/null", O_RDWR)))));
  CHECK(refused(FaultSourceKind::posix, one(UniqueFd(::open("/dev/null", O_RDWR)))));
  FakeClient client;
  CHECK(client.attach(kViewBytes - 1).error().code == VP_INVALID);
  CHECK(client.attach(0).error().code == VP_INVALID);
  CHECK(client.attach(kViewBytes * 1000).error().code == VP_INVALID);
  CHECK(client.attach().ok());
  client.ring->version = 9;
  CHECK(client.attach().error().code == VP_INVALID);
}

TEST_CASE("a ring that lies about its answers is dropped") {
  FakeClient client;
  client.ring->revokes_posted = 1000;
  CHECK(client.attach().error().code == VP_INVALID);
  client.ring->revokes_posted = 0;
  auto faults = client.attach().value();
  std::array<ViewEvent, 8> events;
  CHECK(faults->read_events(events) == 0);
  client.ring->revokes_applied = 5;  // answers nobody asked for
  REQUIRE(faults->read_events(events) == 1);
  CHECK(events[0].kind == ViewEvent::Kind::gone);
  CHECK(faults->revoke(0, kPageBytes, PageAccess::none) == RevokeState::gone);
  CHECK(faults->reveal(0, kPageBytes, PageAccess::read).gone);
}

TEST_CASE("a fault beyond the view is not passed on") {
  FakeClient client;
  auto faults = client.attach().value();
  client.ring->slots[3].page = kPages;
  client.ring->slots[3].state = static_cast<std::uint32_t>(SlotState::posted);
  client.ring->slots[4].page = kPages - 1;
  client.ring->slots[4].state = static_cast<std::uint32_t>(SlotState::posted);
  std::array<ViewEvent, 8> events;
  REQUIRE(faults->read_events(events) == 1);
  CHECK(events[0].offset == kViewBytes - kPageBytes);
}

TEST_CASE("more faults than fit in one call come with the next") {
  FakeClient client;
  auto faults = client.attach().value();
  for (std::uint64_t i = 0; i < kPages; ++i) {
    client.ring->slots[i].page = i;
    client.ring->slots[i].state = static_cast<std::uint32_t>(SlotState::posted);
  }
  std::array<ViewEvent, 5> events;
  CHECK(faults->read_events(events) == 5);
  CHECK(faults->read_events(events) == 3);
  CHECK(faults->read_events(events) == 0);
}

TEST_CASE("unanswered revokes fill up and are refused; overlapping ones stay pending; all are reported when answered") {
  FakeClient client;
  auto faults = client.attach().value();
  faults->reveal(0, kViewBytes, PageAccess::write);
  CHECK(faults->revoke(0, kViewBytes, PageAccess::read) == RevokeState::pending);
  for (std::size_t i = 1; i < kRevokesPendingMax; ++i)
    REQUIRE(faults->revoke(0, kPageBytes, PageAccess::read) == RevokeState::pending);
  CHECK(faults->revoke(0, kPageBytes, PageAccess::none) == RevokeState::full);
  client.ring->revokes_applied = kRevokesPendingMax;
  std::array<ViewEvent, 300> events;
  CHECK(faults->read_events(events) == kRevokesPendingMax);
  CHECK(events[0].kind == ViewEvent::Kind::revoked);
  CHECK(events[0].bytes == kViewBytes);
  CHECK(faults->revoke(0, kPageBytes, PageAccess::read) == RevokeState::done);
  CHECK(faults->revoke(0, kPageBytes, PageAccess::none) == RevokeState::pending);
}

TEST_CASE("a daemon that takes over waits for the revokes of the one before") {
  FakeClient client;
  {
    auto first = client.attach().value();
    first->reveal(0, kPageBytes, PageAccess::read);
    REQUIRE(first->revoke(0, kPageBytes, PageAccess::none) == RevokeState::pending);
  }
  auto second = client.attach().value();
  CHECK(second->revoke(0, kPageBytes, PageAccess::none) == RevokeState::pending);
  CHECK(second->revoke(kPageBytes, kPageBytes, PageAccess::none) == RevokeState::done);
}

TEST_CASE("posix: a thread that was granted a page, slept, and wakes after the revoke does not protect it") {
  if (kThreadSanitizer) return;
  const pid_t pid = ::fork();
  if (pid == 0) {
    auto object = create_unnamed_object("vptest", kViewBytes).value();
    CLIENT_CHECK(object.map(MapUse::cache).ok());
    object.memory()[0] = std::byte{1};
    ClientViewOptions options;
    options.bytes = kViewBytes;
    options.access = PageAccess::write;
    auto view = ClientView::create(options).value();
    CLIENT_CHECK(view->map_cache(0, object.fd(), 0, kViewBytes).ok());
    auto descriptors = view->attach_descriptors().value();
    auto shared = adopt_unnamed_object(std::move(descriptors[0]), fault_ring_bytes(kPages)).value();
    CLIENT_CHECK(shared.map(MapUse::cache).ok());
    auto* ring = reinterpret_cast<FaultRing*>(shared.memory().data());
    std::atomic<std::uint32_t>& word = ring->page_states()[0];
    const auto slot_is = [&](SlotState state) {
      return ring->slots[0].state.load() == static_cast<std::uint32_t>(state);
    };
    const auto wait_for = [&](SlotState state) {
      for (int i = 0; i < 100'000 && !slot_is(state); ++i) ::usleep(100);
      CLIENT_CHECK(slot_is(state));
    };
    std::thread writer([&] { *reinterpret_cast<volatile std::byte*>(view->base()) = std::byte{2}; });
    wait_for(SlotState::posted);
    // It finds the grant, and then waits for the lock that we hold: asleep between the two.
    word.fetch_or(kPageLocked);
    raise_access(word, PageAccess::write);
    ring->slots[0].state = static_cast<std::uint32_t>(SlotState::answered);
    wait_for(SlotState::free);
    ::usleep(20'000);
    lower_access(word, PageAccess::none);
    word.fetch_and(~kPageLocked);
    wait_for(SlotState::posted);  // it asks again
    CLIENT_CHECK(object.memory()[0] == std::byte{1});
    raise_access(word, PageAccess::write);
    ring->slots[0].state = static_cast<std::uint32_t>(SlotState::answered);
    writer.join();
    CLIENT_CHECK(object.memory()[0] == std::byte{2});
    ::_exit(0);
  }
  CHECK(exit_of(pid) == 0);
}

TEST_CASE("a page's access only rises by a grant and only falls by a revoke") {
  std::atomic<std::uint32_t> word{kPageLocked};
  CHECK(raise_access(word, PageAccess::write) == PageAccess::none);
  CHECK(raise_access(word, PageAccess::read) == PageAccess::write);
  CHECK(granted_access(word.load()) == PageAccess::write);
  CHECK(lower_access(word, PageAccess::read) == PageAccess::write);
  CHECK(lower_access(word, PageAccess::write) == PageAccess::read);
  CHECK(word.load() == (kPageLocked | 1));
}

TEST_CASE("poisoned ranges are bounded") {
  PoisonedRanges ranges;
  for (std::uint64_t i = 0; i < 64; ++i) REQUIRE(ranges.add(i * 100, 50));
  CHECK_FALSE(ranges.add(1 << 20, 1));
  CHECK(ranges.holds(149));
  CHECK_FALSE(ranges.holds(150));
}

TEST_CASE("the probe gives its reason, and the names of sources can be read back") {
  const FaultSourceProbe probe = probe_fault_source();
  CHECK_FALSE(probe.reason.empty());
  FaultSourceKind kind{};
  CHECK(parse_fault_source(to_text(probe.kind), kind));
  CHECK(kind == probe.kind);
  CHECK_FALSE(parse_fault_source("magic", kind));
}

#ifdef __linux__
TEST_CASE("an unprivileged client makes a full userfaultfd from the daemon's device descriptor") {
  if (probe_fault_source().kind != FaultSourceKind::userfaultfd || ::getuid() != 0) {
    MESSAGE("skipped: needs root and userfaultfd");
    return;
  }
  const UniqueFd device(open_fault_device());
  if (!device) {
    MESSAGE("skipped: no /dev/userfaultfd");
    return;
  }
  const pid_t pid = ::fork();
  if (pid == 0) {
    CLIENT_CHECK(::setgid(65534) == 0 && ::setuid(65534) == 0);
    const FaultSourceProbe with = probe_fault_source(device.get());
    CLIENT_CHECK(with.kind == FaultSourceKind::userfaultfd && !with.user_mode_only);
    ::_exit(0);
  }
  CHECK(exit_of(pid) == 0);
}

TEST_CASE("reading events does not hang when the client makes the shared descriptor blocking") {
  if (probe_fault_source().kind != FaultSourceKind::userfaultfd) return;
  ClientViewOptions options;
  options.kind = FaultSourceKind::userfaultfd;
  options.bytes = kViewBytes;
  auto view = ClientView::create(options).value();
  auto descriptors = view->attach_descriptors().value();
  const UniqueFd client_copy(::fcntl(descriptors[0].get(), F_DUPFD_CLOEXEC, 0));
  auto faults = ViewFaults::attach(FaultSourceKind::userfaultfd, std::move(descriptors),
                                   reinterpret_cast<std::uintptr_t>(view->base()), kViewBytes)
                    .value();
  REQUIRE(::fcntl(client_copy.get(), F_SETFL, 0) == 0);
  std::array<ViewEvent, 4> events;
  const std::size_t n = faults->read_events(events);
  CHECK((n == 0 || events[0].kind == ViewEvent::Kind::gone));
}
#endif
