// What all loops of one data plane share: options, counters, tickets, pieces, TLS contexts.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "platform/machine.h"
#include "service/data/piece_store.h"
#include "service/data_plane.h"
#include "transport/tls.h"

namespace vrampool::service::data {

class DataLoop;
class Engine;

// Latencies in steps of a quarter power of two. Threads: add one, read any.
class Histogram {
 public:
  void add(std::uint64_t ns) { buckets_[index(ns)].fetch_add(1, std::memory_order_relaxed); }
  // Upper end of the bucket in which share `q` (0..1) of all values lies; 0 without values.
  std::uint64_t quantile(double q) const {
    std::uint64_t all = 0, seen = 0;
    for (const auto& b : buckets_) all += b.load(std::memory_order_relaxed);
    if (all == 0) return 0;
    const auto wanted = static_cast<std::uint64_t>(q * static_cast<double>(all - 1)) + 1;
    for (std::size_t i = 0; i < kBuckets; ++i)
      if ((seen += buckets_[i].load(std::memory_order_relaxed)) >= wanted) return upper(i);
    return upper(kBuckets - 1);
  }

 private:
  static constexpr std::size_t kBuckets = 64 * 4;
  static std::size_t index(std::uint64_t ns) {
    const auto v = std::max<std::uint64_t>(ns, 4);
    const auto top = static_cast<std::size_t>(std::bit_width(v)) - 1;
    return top * 4 + (v >> (top - 2) & 3);
  }
  static std::uint64_t upper(std::size_t i) {
    const auto top = i / 4;
    return top < 2 ? 4 : ((4 + i % 4 + 1) << (top - 2)) - 1;
  }
  std::array<std::atomic<std::uint64_t>, kBuckets> buckets_{};
};

struct Counters {
  std::atomic<std::uint64_t> cache_bytes{0}, views{0}, faults{0}, pages_fetched{0}, pages_served{0}, bytes_in{0},
      bytes_out{0};
  std::atomic<std::uint64_t> crc_errors{0}, retries{0}, poisoned_pages{0}, evicted_pages{0};
  Histogram fault_ns;
};

// One-time admissions of data connections. Threads: any. Bounded: expired ones go first, then the oldest.
class Tickets {
 public:
  wire::Ticket issue(Sender from);
  // Who holds it; the ticket is used up. VP_DENIED: unknown, used or expired.
  Result<Sender> redeem(const wire::Ticket&);

 private:
  static constexpr std::size_t kTicketsMax = 4096;
  struct Entry {
    Sender from{};
    Instant expires{};
  };
  std::mutex mutex_;
  std::map<wire::Ticket, Entry> tickets_;
};

// Request numbers of this life that the engine's machines do not use: their high bits name who counts.
inline constexpr int kRequestCounterBits = 40;

struct Node {
  Node(DataPlaneOptions o, PieceStore s) : options(std::move(o)), store(std::move(s)) {}
  Sender self() const { return options.self; }
  // Numbers of writes rise over the whole node, because a piece's gate judges them.
  RequestNo next_write() { return RequestNo{writes.fetch_add(1, std::memory_order_relaxed) + 1}; }
  // Runs on the control thread; not any more once the data plane has ended.
  void post(std::function<void()> fn) const {
    options.post([still = std::weak_ptr<int>(living), fn = std::move(fn)] {
      if (!still.expired()) fn();
    });
  }
  // From the control thread to a loop, from callbacks that may outlive the data plane.
  std::weak_ptr<int> life() const { return living; }

  DataPlaneOptions options;
  PieceStore store;
  platform::MachineId boot{};
  std::optional<transport::TlsContext> tls_client, tls_server;
  Counters counters;
  Tickets tickets;
  std::atomic<std::uint64_t> writes{0}, bulk_reads{1};
  std::vector<std::unique_ptr<DataLoop>> loops;  // [0] is the engine's
  std::shared_ptr<int> living = std::make_shared<int>(0);
};

}  // namespace vrampool::service::data
