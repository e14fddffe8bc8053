// Shared objects: names, room, holes, read-only descriptors, adoption, cleanup, the full file system.
#include <doctest/doctest.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "base/limits.h"
#include "temp_store.h"

using namespace vrampool;
using namespace vrampool::platform;
using testing::TempStore;

namespace {
constexpr std::uint64_t kBytes = 4u << 20;

// Runs `body` in a child; its exit status, 128 + signal when killed.
template <class Body>
int in_child(Body body) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(body());
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
}  // namespace

TEST_CASE("an object is sparse, mapped aligned, and found again by name after its maker closed it") {
  TempStore store;
  {
    auto made = store->create("3.1.7-0.data", kBytes);
    REQUIRE(made.ok());
    REQUIRE(made->map(MapUse::cache).ok());
    CHECK(reinterpret_cast<std::uintptr_t>(made->memory().data()) % kMapAlignBytes == 0);
    REQUIRE(made->reserve(kPageBytes, kPageBytes).ok());
    std::memset(made->memory().data() + kPageBytes, 7, kPageBytes);
#ifdef __linux__
    CHECK(made->allocated_bytes() == kPageBytes);
#endif
  }
  auto again = store->open_existing("3.1.7-0.data");
  REQUIRE(again.ok());
  CHECK(again->bytes() == kBytes);
  REQUIRE(again->map(MapUse::cache).ok());
  CHECK(again->memory()[kPageBytes] == std::byte{7});
  CHECK(store->create("3.1.7-0.data", kBytes).error().code == VP_EXISTS);
  CHECK(store->open_existing("nothing").error().code == VP_NOT_FOUND);
}

TEST_CASE("names that could leave the directory are refused") {
  TempStore store;
  for (const char* bad : {"", ".", "..", "a/b", ".hidden", "a b"})
    CHECK(store->create(bad, kBytes).error().code == VP_INVALID);
  CHECK(store->create("x", 0).error().code == VP_INVALID);
  CHECK(store->remove("../x").error().code == VP_INVALID);
}

TEST_CASE("removing the name keeps the bytes for those who map them") {
  TempStore store;
  auto object = store->create("a", kBytes).value();
  REQUIRE(object.map(MapUse::sealed).ok());
  object.memory()[0] = std::byte{1};
  REQUIRE(store->remove("a").ok());
  REQUIRE(store->remove("a").ok());
  CHECK(object.memory()[0] == std::byte{1});
  CHECK(store->list()->empty());
  CHECK(store->create("a", kBytes).ok());
}

TEST_CASE("cleanup removes everything of the store and says how many") {
  TempStore store;
  REQUIRE(store->create("a", kBytes).ok());
  REQUIRE(store->create("b", kBytes)->reserve(0, kPageBytes).ok());
  CHECK(store->list()->size() == 2);
#ifdef __linux__
  CHECK(store->allocated_bytes() == kPageBytes);
#endif
  CHECK(*store->cleanup() == 2);
  CHECK(store->list()->empty());
}

TEST_CASE("a part that is given back reads as zero and frees its memory") {
  if (SharedObject::release_granule_bytes() == 0) return;
  TempStore store;
  auto object = store->create("a", kBytes).value();
  REQUIRE(object.map(MapUse::cache).ok());
  REQUIRE(object.reserve(0, 8 * kPageBytes).ok());
  std::memset(object.memory().data(), 5, 8 * kPageBytes);
  const auto before = object.allocated_bytes();
  REQUIRE(object.release(2 * kPageBytes, kPageBytes).ok());
  CHECK(object.allocated_bytes() == before - kPageBytes);
  CHECK(object.memory()[2 * kPageBytes] == std::byte{0});
  CHECK(object.memory()[3 * kPageBytes] == std::byte{5});
  CHECK(object.bytes() == kBytes);
}

TEST_CASE("a read-only descriptor cannot write, nor be opened for writing by another user") {
  TempStore store;
  auto object = store->create("a", kBytes).value();
  const auto reader = object.read_only_descriptor();
  REQUIRE(reader.ok());
  CHECK(::write(reader->get(), "x", 1) < 0);
  CHECK(::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, reader->get(), 0) == MAP_FAILED);
#ifdef __linux__
  if (::getuid() != 0) {
    MESSAGE("skipped: becoming another user needs root");
    return;
  }
  const int how = in_child([fd = reader->get()] {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) return 2;
    const std::string link = fmt::format("/proc/self/fd/{}", fd);
    if (::open(link.c_str(), O_RDWR) >= 0) return 3;
    if (::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kPageBytes) == 0) return 4;
    char c = 0;
    return ::pread(fd, &c, 1, 0) == 1 ? 0 : 5;
  });
  CHECK(how == 0);
#endif
}

TEST_CASE("the alias is not inherited by a forked child") {
  TempStore store;
  auto object = store->create("a", kBytes).value();
  REQUIRE(object.map(MapUse::cache).ok());
  object.memory()[0] = std::byte{1};
  const int how = in_child([at = object.memory().data()] {
    ::signal(SIGSEGV, SIG_DFL);
    ::signal(SIGBUS, SIG_DFL);
    return static_cast<int>(*static_cast<volatile std::byte*>(at));
  });
  CHECK((how == 128 + SIGSEGV || how == 128 + SIGBUS || how == 1 + 0x100));
  CHECK(how > 1);
}

#ifdef __linux__
TEST_CASE("a directory that is no memory file system is refused, unless allowed") {
  const std::string directory = fmt::format("/var/tmp/vptest-{:x}", random_id().lo);
  ObjectStoreOptions options;
  options.directory = directory;
  CHECK(ObjectStore::open({"relative"}).error().code == VP_INVALID);
  const auto refused = ObjectStore::open(options);
  if (refused.ok()) {
    MESSAGE("skipped: /var/tmp is on tmpfs here");
  } else {
    CHECK(refused.error().code == VP_UNSUPPORTED);
    CHECK(refused.error().message.find("tmpfs") != std::string::npos);
  }
  options.require_memory_filesystem = false;
  CHECK(ObjectStore::open(options).ok());
  ::rmdir(directory.c_str());
}

TEST_CASE("past the file system's limit reserving fails cleanly, before any store could be SIGBUS") {
  const std::string directory = fmt::format("/tmp/vptest-{:x}", random_id().lo);
  const auto mounted = mount_memory_filesystem(directory, 1u << 20);
  if (!mounted.ok()) {
    MESSAGE("skipped: " << mounted.error().message);
    ::rmdir(directory.c_str());
    return;
  }
  {
    ObjectStoreOptions options;
    options.directory = directory;
    auto store = ObjectStore::open(options);
    REQUIRE(store.ok());
    CHECK(store->free_bytes() <= (1u << 20));
    auto object = store->create("a", kBytes).value();  // sparse: larger than the file system
    REQUIRE(object.map(MapUse::cache).ok());
    REQUIRE(object.reserve(0, 32 * kPageBytes).ok());
    std::memset(object.memory().data(), 1, 32 * kPageBytes);
    const auto full = object.reserve(32 * kPageBytes, kBytes - 32 * kPageBytes);
    REQUIRE_FALSE(full.ok());
    CHECK(full.error().code == VP_NO_SPACE);
    CHECK(full.error().message.find("full") != std::string::npos);
    REQUIRE(object.release(0, 32 * kPageBytes).ok());
    CHECK(object.reserve(64 * kPageBytes / 2, 16 * kPageBytes).ok());
    REQUIRE(mount_memory_filesystem(directory, 2u << 20).ok());  // grows in place
    CHECK(store->free_bytes() > (1u << 20));
  }
  CHECK(unmount_memory_filesystem(directory).ok());
  ::rmdir(directory.c_str());
}
#endif

TEST_CASE("an unnamed object is taken over whole, and only if its size is right and fixed") {
  auto object = create_unnamed_object("vptest", kBytes).value();
  REQUIRE(object.map(MapUse::cache).ok());
  object.memory()[5] = std::byte{9};
  auto adopted = adopt_unnamed_object(object.read_write_descriptor().value(), kBytes);
  REQUIRE(adopted.ok());
  REQUIRE(adopted->map(MapUse::cache).ok());
  CHECK(adopted->memory()[5] == std::byte{9});
  CHECK(adopt_unnamed_object(object.read_write_descriptor().value(), kBytes * 2).error().code == VP_INVALID);
  TempStore store;
  auto named = store->create("a", kBytes).value();
#ifdef __linux__
  CHECK(adopt_unnamed_object(named.read_write_descriptor().value(), kBytes).error().code == VP_INVALID);
#endif
}
