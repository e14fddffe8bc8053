// Reading mapped memory: ours and an own shared object through the same loop.
#include <fmt/format.h>

#include <cstring>

#include "base/text.h"
#include "bench/baselines.h"
#include "bench/child.h"
#include "platform/shared_object.h"

namespace vrampool::bench {
namespace {

constexpr std::size_t kSequentialBytes = 1u << 20;

// The compiler must not drop the reads.
std::uint64_t read_all(std::span<const std::byte> bytes) {
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at + 8 <= bytes.size(); at += 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data() + at, 8);
    sum += word;
  }
  return sum;
}

struct Scan {
  std::span<const std::byte> memory;
  ScanOrder order;
  std::shared_ptr<void> keep_alive;
  std::size_t next = 0;
  std::uint64_t seed = 1;
  volatile std::uint64_t sink = 0;

  std::span<const std::byte> place(std::size_t bytes) {
    const std::size_t places = memory.size() / bytes;
    if (order == ScanOrder::random) seed = seed * 6364136223846793005ull + 1442695040888963407ull, next = seed >> 33;
    return memory.subspan(next++ % places * bytes, bytes);
  }
  Result<Samples> run(std::size_t n) {
    Samples s;
    s.bytes_per_op = std::min(memory.size(), order == ScanOrder::random ? kPageBytes : kSequentialBytes);
    if (s.bytes_per_op == 0) return error(VP_INVALID, "nothing to read");
    const std::int64_t cpu = own_cpu_ns();
    for (std::size_t i = 0; i < n; ++i) {
      const std::int64_t start = now_ns();
      sink = sink + read_all(place(s.bytes_per_op));
      s.ns.push_back(static_cast<std::uint64_t>(now_ns() - start));
    }
    s.cpu_ns = own_cpu_ns() - cpu;
    return s;
  }
};

}  // namespace

Measured scan_memory(std::string name, std::span<const std::byte> memory, ScanOrder order,
                     std::shared_ptr<void> keep_alive) {
  auto scan = std::make_shared<Scan>();
  scan->memory = memory;
  scan->order = order;
  scan->keep_alive = std::move(keep_alive);
  return {std::move(name), [scan](std::size_t n) { return scan->run(n); }};
}

Result<Measured> own_object_scan(std::uint64_t bytes, ScanOrder order) {
  VP_TRY(object, platform::create_unnamed_object("vrampool-bench", bytes));
  VP_CHECK(object.map(platform::MapUse::sealed));
  std::memset(object.memory().data(), 0x5a, object.memory().size());
  auto memory = std::make_shared<platform::SharedObject>(std::move(object));
  const std::span<const std::byte> view = memory->memory();
  auto name = fmt::format("own shared object of {}, {}", format_bytes(bytes),
                          order == ScanOrder::random ? "random pages" : "front to back");
  return scan_memory(std::move(name), view, order, memory);
}

}  // namespace vrampool::bench
