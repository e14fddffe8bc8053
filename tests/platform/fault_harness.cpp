// The test daemon and its clients.
#include "fault_harness.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include <cstring>

namespace vrampool::platform::testing {

namespace {

struct AttachMessage {
  std::uint64_t base = 0;
  std::uint64_t bytes = 0;
};

Board* new_board() {
  void* at = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANON, -1, 0);
  return at == MAP_FAILED ? nullptr : new (at) Board{};
}

// A client is a program of its own: doctest's signal handlers are not part of it.
void become_client() {
  for (const int number : {SIGSEGV, SIGBUS, SIGABRT, SIGTERM, SIGFPE, SIGILL}) ::signal(number, SIG_DFL);
#ifdef __linux__
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
}

int to_exit(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

}  // namespace

void for_each_source(const std::function<void(FaultSourceKind)>& body) {
  if (kThreadSanitizer) {
    MESSAGE("posix skipped: ThreadSanitizer does not support waiting inside a signal handler");
  } else {
    INFO("posix");
    body(FaultSourceKind::posix);
  }
  const FaultSourceProbe probe = probe_fault_source();
  if (probe.kind != FaultSourceKind::userfaultfd) {
    MESSAGE("userfaultfd skipped: " << probe.reason);
    return;
  }
  INFO("userfaultfd");
  body(FaultSourceKind::userfaultfd);
}

int exit_of(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return to_exit(status);
}

ClientSide::ClientSide(ClientViewOptions options, Board& board, int socket, int object_fd)
    : board_(board), socket_(socket) {
  auto made = ClientView::create(options);
  CLIENT_CHECK(made.ok());
  view_ = std::move(*made);
  CLIENT_CHECK(view_->map_cache(0, object_fd, 0, options.bytes).ok());
  ::close(object_fd);
}

void ClientSide::attach() {
  auto descriptors = view_->attach_descriptors();
  CLIENT_CHECK(descriptors.ok());
  std::vector<int> borrowed;
  for (const UniqueFd& fd : *descriptors) borrowed.push_back(fd.get());
  const AttachMessage message{reinterpret_cast<std::uintptr_t>(view_->base()), view_->bytes()};
  CLIENT_CHECK(send_all(socket_, std::as_bytes(std::span(&message, 1)), borrowed, kPatience).ok());
}

void ClientSide::wait_for(int index, std::uint64_t value) {
  const Instant end = now() + kPatience;
  while (board_.value[static_cast<std::size_t>(index)].load() < value) {
    CLIENT_CHECK(now() < end);
    ::usleep(100);
  }
}

bool ClientSide::page_is(std::uint64_t page, std::uint64_t generation) const {
  for (std::size_t i = 0; i < kWordsPerPage; ++i)
    if (words(page)[i] != pattern(page, generation, i)) return false;
  return true;
}

TestDaemon::TestDaemon(FaultSourceKind k, std::uint64_t n, PageAccess a)
    : kind(k),
      page_count(n),
      access(a),
      object(store->create("cache", n * kPageBytes).value()),
      board(new_board()),
      pages(n),
      poller_(Poller::create().value()) {
  REQUIRE(object.map(MapUse::cache).ok());
  REQUIRE(board != nullptr);
}

TestDaemon::~TestDaemon() {
  for (ClientRecord& c : clients) {
    if (c.reaped) continue;
    ::kill(c.pid, SIGKILL);
    exit_of(c.pid);
  }
  ::munmap(board, sizeof(Board));
}

std::size_t TestDaemon::spawn(const Body& body, Duration deadline) {
  auto ends = socket_pair().value();
  UniqueFd fd =
      access == PageAccess::write ? object.read_write_descriptor().value() : object.read_only_descriptor().value();
  ClientViewOptions options;
  options.kind = kind;
  options.bytes = page_count * kPageBytes;
  options.access = access;
  options.fault_deadline = deadline;
  const pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    become_client();
    int result = 0;
    {
      ClientSide side(options, *board, ends.second.get(), fd.release());
      side.attach();
      result = body(side);
    }
    ::_exit(result);
  }
  clients.emplace_back();
  clients.back().pid = pid;
  clients.back().socket = std::move(ends.first);
  attach(clients.size() - 1);
  return clients.size() - 1;
}

void TestDaemon::attach(std::size_t client) {
  AttachMessage message;
  DescriptorList list;
  REQUIRE(
      receive_all(clients[client].socket.get(), std::as_writable_bytes(std::span(&message, 1)), list, kPatience).ok());
  AttachDescriptors descriptors;
  for (UniqueFd& fd : list) descriptors.push_back(std::move(fd));
  auto faults = ViewFaults::attach(kind, std::move(descriptors), message.base, message.bytes);
  REQUIRE(faults.ok());
  clients[client].faults = std::move(*faults);
  REQUIRE(poller_.add(clients[client].faults->fd(), client, PollFor::read).ok());
}

void TestDaemon::die() {
  for (ClientRecord& c : clients) {
    if (c.faults) poller_.remove(c.faults->fd());
    c.faults.reset();
  }
}

bool TestDaemon::ended(std::size_t client) {
  ClientRecord& c = clients[client];
  if (!c.reaped && ::waitpid(c.pid, &c.status, WNOHANG) == c.pid) c.reaped = true;
  return c.reaped;
}

int TestDaemon::finish(std::size_t client) {
  if (!serve_until([&] { return ended(client); })) return -1;
  return to_exit(clients[client].status);
}

bool TestDaemon::serve_until(const std::function<bool()>& done) {
  const Instant end = now() + kPatience;
  while (!done()) {
    if (now() > end) return false;
    serve_once(Duration::millis(2));
  }
  return true;
}

void TestDaemon::serve_once(Duration timeout) {
  std::array<PollEvent, 16> ready;
  const std::size_t n = poller_.wait(ready, timeout);
  for (std::size_t i = 0; i < n; ++i) drain(ready[i].token);
}

void TestDaemon::drain(std::size_t client) {
  std::array<ViewEvent, 32> events;
  for (std::size_t n = events.size(); n == events.size() && clients[client].faults;) {
    n = clients[client].faults->read_events(events);
    for (std::size_t i = 0; i < n; ++i) handle(client, events[i]);
  }
}

void TestDaemon::handle(std::size_t client, const ViewEvent& event) {
  const std::uint64_t page = event.offset / kPageBytes;
  if (event.kind == ViewEvent::Kind::gone) {
    ++gone_seen;
    poller_.remove(clients[client].faults->fd());
    clients[client].faults.reset();
    // What it had is gone with it.
    for (std::uint64_t p = 0; p < page_count; ++p) revoke_answered(client, p);
  } else if (event.kind == ViewEvent::Kind::revoked) {
    ++revokes_seen;
    if (on_revoked)
      on_revoked(event);
    else
      revoke_answered(client, page);
  } else {
    ++faults_seen;
    if (!on_fault || !on_fault(client, event)) answer(client, page, event.write);
  }
}

void TestDaemon::revoke_answered(std::size_t client, std::uint64_t page) {
  PageRecord& record = pages[page];
  if (std::erase(record.revoking, client) > 0 && record.revoking.empty() && record.evicting) finish_eviction(page);
}

void TestDaemon::answer(std::size_t client, std::uint64_t page, bool write) {
  if (pages[page].evicting) {
    pages[page].waiting.emplace_back(client, write);
    return;
  }
  if (!pages[page].valid) fill(page);
  const Revealed r = reveal(client, page, 1, write ? PageAccess::write : PageAccess::read);
  CHECK(r.absent.none());
}

void TestDaemon::fill(std::uint64_t page) {
  PageRecord& record = pages[page];
  ++record.generation;
  REQUIRE(object.reserve(page * kPageBytes, kPageBytes).ok());
  fill_part(page, record.generation, 0, kWordsPerPage);
  record.valid = true;
}

void TestDaemon::fill_part(std::uint64_t page, std::uint64_t generation, std::size_t first_word, std::size_t words) {
  auto* at = reinterpret_cast<volatile std::uint64_t*>(object.memory().data() + page * kPageBytes);
  for (std::size_t i = first_word; i < first_word + words; ++i) at[i] = pattern(page, generation, i);
}

Revealed TestDaemon::reveal(std::size_t client, std::uint64_t page, std::uint64_t n, PageAccess how) {
  if (!clients[client].faults) return {};
  return clients[client].faults->reveal(page * kPageBytes, n * kPageBytes, how);
}

void TestDaemon::evict(std::uint64_t page) {
  PageRecord& record = pages[page];
  if (!record.valid || record.evicting) return;
  record.evicting = true;
  for (std::size_t i = 0; i < clients.size(); ++i) {
    if (!clients[i].faults) continue;
    const RevokeState state = clients[i].faults->revoke(page * kPageBytes, kPageBytes, PageAccess::none);
    REQUIRE(state != RevokeState::full);
    if (state == RevokeState::pending) record.revoking.push_back(i);
  }
  if (record.revoking.empty()) finish_eviction(page);
}

void TestDaemon::finish_eviction(std::uint64_t page) {
  PageRecord& record = pages[page];
  record.valid = false;
  REQUIRE(object.release(page * kPageBytes, kPageBytes).ok());
  board->floor[page].store(record.generation + 1);
  record.evicting = false;
  const auto waiting = std::move(record.waiting);
  record.waiting.clear();
  for (const auto& [client, write] : waiting) answer(client, page, write);
}

}  // namespace vrampool::platform::testing
