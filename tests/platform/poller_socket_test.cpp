// Poller, doorbell, unix sockets and descriptors beside bytes.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <thread>
#include <vector>

#include "platform/clock.h"
#include "platform/futex.h"
#include "platform/machine.h"
#include "platform/poller.h"
#include "platform/unix_socket.h"

using namespace vrampool;
using namespace vrampool::platform;

namespace {

std::string temp_path() { return fmt::format("/tmp/vptest-{:x}.sock", random_id().lo); }
std::span<const std::byte> bytes_of(const char* text) {
  return {reinterpret_cast<const std::byte*>(text), std::strlen(text)};
}
constexpr Duration kSoon = Duration::seconds(5);

}  // namespace

TEST_CASE("poller reports what is ready, by token, until it is dealt with") {
  Poller poller = Poller::create().value();
  const Doorbell a = Doorbell::create().value();
  const Doorbell b = Doorbell::create().value();
  REQUIRE(poller.add(a.fd(), 1, PollFor::read).ok());
  REQUIRE(poller.add(b.fd(), 2, PollFor::read).ok());
  std::array<PollEvent, 4> events;
  CHECK(poller.wait(events, Duration{}) == 0);
  b.ring();
  b.ring();
  REQUIRE(poller.wait(events, kSoon) == 1);
  CHECK(events[0].token == 2);
  CHECK(events[0].readable);
  CHECK(poller.wait(events, kSoon) == 1);
  CHECK(b.drain());
  CHECK_FALSE(b.drain());
  CHECK(poller.wait(events, Duration::micros(300)) == 0);
  a.ring();
  poller.remove(a.fd());
  CHECK(poller.wait(events, Duration{}) == 0);
}

TEST_CASE("a doorbell wakes a thread that waits for ever") {
  Poller poller = Poller::create().value();
  const Doorbell bell = Doorbell::create().value();
  REQUIRE(poller.add(bell.fd(), 9, PollFor::read).ok());
  std::thread ringer([&] { bell.ring(); });
  std::array<PollEvent, 1> events;
  CHECK(poller.wait(events, Duration{-1}) == 1);
  ringer.join();
}

TEST_CASE("interest can change, and a closed peer is hung up") {
  Poller poller = Poller::create().value();
  auto [left, right] = socket_pair().value();
  REQUIRE(poller.add(left.get(), 3, PollFor::write).ok());
  std::array<PollEvent, 2> events;
  REQUIRE(poller.wait(events, kSoon) == 1);
  CHECK(events[0].writable);
  REQUIRE(poller.modify(left.get(), 3, PollFor::read).ok());
  CHECK(poller.wait(events, Duration{}) == 0);
  right.reset();
  REQUIRE(poller.wait(events, kSoon) == 1);
  CHECK(events[0].hung_up);
}

TEST_CASE("a futex waits while the word holds, and wakes") {
  std::atomic<std::uint32_t> word{0};
  CHECK(futex_wait(word, 1, kSoon) == FutexResult::changed);
  CHECK(futex_wait(word, 0, Duration::millis(2)) == FutexResult::timed_out);
  std::thread other([&] {
    word.store(1);
    futex_wake_all(word);
  });
  while (word.load() == 0) (void)futex_wait(word, 0, kSoon);
  other.join();
}

TEST_CASE("a socket path too long is refused with its length") {
  const auto status = check_socket_path("/tmp/" + std::string(120, 'x'));
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().code == VP_INVALID);
  CHECK(status.error().message.find("125") != std::string::npos);
  CHECK_FALSE(check_socket_path("").ok());
  CHECK_FALSE(listen_unix("/tmp/" + std::string(120, 'x'), 0600).ok());
}

TEST_CASE("listen, connect, accept; the peer is known; a second daemon is refused; a stale file is replaced") {
  const std::string path = temp_path();
  CHECK(connect_unix(path).error().code == VP_UNREACHABLE);
  auto listener = listen_unix(path, 0600);
  REQUIRE(listener.ok());
  struct stat s {};
  ::stat(path.c_str(), &s);
  CHECK((s.st_mode & 0777) == 0600);
  CHECK(listen_unix(path, 0600).error().code == VP_BUSY);
  while (accept_unix(listener->get())->get() >= 0) {
  }
  const auto client = connect_unix(path);
  REQUIRE(client.ok());
  const auto served = accept_unix(listener->get());
  REQUIRE(served.ok());
  REQUIRE(served->get() >= 0);
  const auto who = peer_credentials(served->get());
  REQUIRE(who.ok());
  CHECK(who->uid == ::getuid());
  CHECK(who->pid == ::getpid());
  listener->reset();
  CHECK(connect_unix(path).error().code == VP_UNREACHABLE);
  CHECK(listen_unix(path, 0600).ok());
  ::unlink(path.c_str());
}

TEST_CASE("bytes arrive with their descriptors, which close on exec") {
  auto [left, right] = socket_pair().value();
  int pipe_ends[2];
  REQUIRE(::pipe(pipe_ends) == 0);
  const UniqueFd in(pipe_ends[0]);
  const UniqueFd out(pipe_ends[1]);
  const std::array<int, 1> give{out.get()};
  REQUIRE(send_all(left.get(), bytes_of("hello"), give, kSoon).ok());
  std::array<std::byte, 5> got{};
  DescriptorList list;
  REQUIRE(receive_all(right.get(), got, list, kSoon).ok());
  CHECK(std::memcmp(got.data(), "hello", 5) == 0);
  REQUIRE(list.size() == 1);
  CHECK((::fcntl(list[0].get(), F_GETFD) & FD_CLOEXEC) != 0);
  REQUIRE(::write(list[0].get(), "x", 1) == 1);
  char c = 0;
  CHECK(::read(in.get(), &c, 1) == 1);
}

TEST_CASE("descriptors beyond the bound are closed and the message is refused") {
  auto [left, right] = socket_pair().value();
  std::vector<int> many(kDescriptorsPerMessageMax + 3, left.get());
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * (kDescriptorsPerMessageMax + 3))] = {};
  char byte = 1;
  iovec io{&byte, 1};
  msghdr m{};
  m.msg_iov = &io;
  m.msg_iovlen = 1;
  m.msg_control = control;
  m.msg_controllen = sizeof control;
  cmsghdr* c = CMSG_FIRSTHDR(&m);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(sizeof(int) * many.size());
  std::memcpy(CMSG_DATA(c), many.data(), sizeof(int) * many.size());
  const int before = ::dup(left.get());
  ::close(before);
  REQUIRE(::sendmsg(left.get(), &m, 0) == 1);
  {
    DescriptorList list;
    std::array<std::byte, 1> got{};
    const auto r = receive_some(right.get(), got, list);
    REQUIRE_FALSE(r.ok());
    CHECK(r.error().code == VP_INVALID);
  }
  const int after = ::dup(left.get());
  ::close(after);
  CHECK(after == before);  // nothing stayed open
}

TEST_CASE("a closed peer ends receiving and fails sending, without a signal") {
  auto [left, right] = socket_pair().value();
  std::array<std::byte, 4> room{};
  DescriptorList list;
  CHECK(receive_some(left.get(), room, list)->would_block);
  CHECK(receive_all(left.get(), room, list, Duration::millis(1)).error().code == VP_TIMEOUT);
  right.reset();
  CHECK(receive_some(left.get(), room, list)->closed);
  CHECK(send_some(left.get(), bytes_of("x")).error().code == VP_UNREACHABLE);
  CHECK(receive_all(left.get(), room, list, kSoon).error().code == VP_UNREACHABLE);
}

TEST_CASE("a full socket sends nothing, and sending on continues when it is read") {
  auto [left, right] = socket_pair().value();
  const std::vector<std::byte> chunk(1 << 16);
  std::size_t sent = 0;
  for (;;) {
    const auto n = send_some(left.get(), chunk);
    REQUIRE(n.ok());
    if (*n == 0) break;
    sent += *n;
  }
  CHECK(sent > 0);
  std::thread reader([&, fd = right.get()] {
    std::vector<std::byte> sink(sent + chunk.size());
    DescriptorList list;
    CHECK(receive_all(fd, sink, list, kSoon).ok());
  });
  CHECK(send_all(left.get(), chunk, {}, kSoon).ok());
  reader.join();
}
