// The signal handler and its lock-free table.
#include "platform/posix/fault_handler.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

namespace vrampool::platform {

namespace {

struct Range {
  std::uintptr_t from = 0;
  std::uintptr_t to = 0;
  FaultReceiver* receiver = nullptr;
};

// Never changed once it is published: handlers search it without a lock.
struct Table {
  pid_t owner = 0;            // a forked child has none of our mappings: there no fault is ours
  std::vector<Range> ranges;  // sorted, disjoint
};

std::mutex table_mutex;
std::atomic<const Table*> current_table{nullptr};
std::atomic<std::uint32_t> handlers_searching{0};

// The one before us in the chain, per signal. Kept for ever: a handler may be reading it.
std::atomic<const struct sigaction*> previous_segv{nullptr};
std::atomic<const struct sigaction*> previous_bus{nullptr};
std::vector<std::unique_ptr<struct sigaction>>& kept_actions() {
  static auto* const kept = new std::vector<std::unique_ptr<struct sigaction>>;
  return *kept;
}

const Range* find(const Table& table, std::uintptr_t address) {
  const auto after = std::upper_bound(table.ranges.begin(), table.ranges.end(), address,
                                      [](std::uintptr_t a, const Range& r) { return a < r.from; });
  if (after == table.ranges.begin()) return nullptr;
  const Range& r = *(after - 1);
  return address < r.to ? &r : nullptr;
}

void publish(std::unique_ptr<Table> next) {
  const std::unique_ptr<const Table> old(current_table.exchange(next.release()));
  while (handlers_searching.load() != 0) ::sched_yield();
}

std::unique_ptr<Table> copy_of_table() {
  const Table* now = current_table.load();
  auto copy = std::make_unique<Table>();
  copy->owner = ::getpid();
  if (now != nullptr && now->owner == copy->owner) copy->ranges = now->ranges;
  return copy;
}

void merge_neighbours(std::vector<Range>& ranges) {
  std::vector<Range> merged;
  for (const Range& r : ranges) {
    if (!merged.empty() && merged.back().to == r.from && merged.back().receiver == r.receiver)
      merged.back().to = r.to;
    else
      merged.push_back(r);
  }
  ranges = std::move(merged);
}

// kill() and raise(), not an access. SI_USER is 0 on Linux, and above all real codes on macOS.
bool was_sent(const siginfo_t* info) { return info->si_code <= 0 || info->si_code == SI_USER; }

void die_by_default(int signal_number, bool sent_by_someone) {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  ::sigaction(signal_number, &standard, nullptr);
  // A real fault happens again when we return; a signal that somebody sent does not.
  if (sent_by_someone) ::raise(signal_number);
}

void chain(int signal_number, siginfo_t* info, void* context) {
  const struct sigaction* before = (signal_number == SIGBUS ? previous_bus : previous_segv).load();
  if (before != nullptr && (before->sa_flags & SA_SIGINFO) != 0)
    before->sa_sigaction(signal_number, info, context);
  else if (before == nullptr || before->sa_handler == SIG_DFL || before->sa_handler == SIG_IGN)
    die_by_default(signal_number, was_sent(info));
  else
    before->sa_handler(signal_number);
}

void on_signal(int signal_number, siginfo_t* info, void* context) {
  const int saved = errno;
  const bool served =
      !was_sent(info) && serve_fault(reinterpret_cast<std::uintptr_t>(info->si_addr), fault_was_write(context));
  errno = saved;
  if (!served) chain(signal_number, info, context);
}

Status install(int signal_number, std::atomic<const struct sigaction*>& previous) {
  struct sigaction there {};
  if (::sigaction(signal_number, nullptr, &there) != 0) return error_errno(errno, "reading a signal handler");
  if ((there.sa_flags & SA_SIGINFO) != 0 && there.sa_sigaction == on_signal) return {};
  kept_actions().push_back(std::make_unique<struct sigaction>(there));
  previous.store(kept_actions().back().get());
  struct sigaction ours {};
  ours.sa_sigaction = on_signal;
  // NODEFER: while a thread waits for a page, a handler of the program that runs on it may touch another one.
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART;
  sigemptyset(&ours.sa_mask);  // a macro on macOS
  if (::sigaction(signal_number, &ours, nullptr) != 0) return error_errno(errno, "installing a signal handler");
  return {};
}

}  // namespace

bool serve_fault(std::uintptr_t address, bool write) {
  handlers_searching.fetch_add(1);
  const Table* table = current_table.load();
  const Range* range = table != nullptr && table->owner == ::getpid() ? find(*table, address) : nullptr;
  FaultReceiver* receiver = range != nullptr ? range->receiver : nullptr;
  if (receiver != nullptr) receiver->inside_.fetch_add(1);
  handlers_searching.fetch_sub(1);
  if (receiver == nullptr) return false;
  const bool served = receiver->on_fault(address, write);
  receiver->inside_.fetch_sub(1);
  return served;
}

Status install_fault_handler() {
  const std::lock_guard lock(table_mutex);
  VP_CHECK(install(SIGSEGV, previous_segv));
  // macOS raises SIGBUS for protected pages, Linux SIGSEGV.
  return install(SIGBUS, previous_bus);
}

void add_fault_range(std::uintptr_t from, std::uintptr_t to, FaultReceiver* receiver) {
  const std::lock_guard lock(table_mutex);
  auto next = copy_of_table();
  const auto at = std::upper_bound(next->ranges.begin(), next->ranges.end(), from,
                                   [](std::uintptr_t a, const Range& r) { return a < r.from; });
  next->ranges.insert(at, Range{from, to, receiver});
  merge_neighbours(next->ranges);
  publish(std::move(next));
}

void remove_fault_ranges(FaultReceiver* receiver) {
  const std::lock_guard lock(table_mutex);
  auto next = copy_of_table();
  std::erase_if(next->ranges, [receiver](const Range& r) { return r.receiver == receiver; });
  publish(std::move(next));
}

void wait_until_unused(const FaultReceiver& receiver) {
  while (receiver.inside_.load() != 0) ::sched_yield();
}

}  // namespace vrampool::platform
