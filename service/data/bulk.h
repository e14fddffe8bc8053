// The blocking channel of jobs: many 1 MiB requests in flight over the movers' connections, local pieces by copy.
#pragma once

#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "service/data/node.h"
#include "service/data/peer_link.h"

namespace vrampool::service::data {

// Threads: one job; its slots are answered on movers. Bounds: kSlots requests, one buffer each for writes.
class Bulk final : public BulkChannel {
 public:
  explicit Bulk(Node& node);
  ~Bulk() override;  // waits for writes in flight

  Status write(const Record&, std::uint64_t offset, std::span<const std::byte> bytes) override;
  Status flush() override;
  Status read(const Record&, std::uint64_t offset, std::span<std::byte> bytes) override;
  void cancel() override;

 private:
  static constexpr std::size_t kSlots = 16;
  static constexpr std::size_t kChunkBytes = kPagesPerMessageMax * kPageBytes;

  enum class Phase : std::uint8_t { idle, flying, again };
  struct Slot final : Asker {
    std::span<std::byte> landing(std::uint64_t) override { return into; }
    void answered(std::uint64_t, const transport::Incoming&) override;
    void unanswered(std::uint64_t, const Error&) override;

    Bulk* owner = nullptr;
    Phase phase = Phase::idle;  // under the owner's mutex, as are the times
    Instant deadline{}, again_at{};
    // While flying the mover's alone:
    wire::DataHeader ask{};
    MemberNo home{};
    std::unique_ptr<std::byte[]> buffer;  // of a write
    std::array<std::uint32_t, kPagesPerMessageMax> crcs{};
    std::span<std::byte> into{};  // of a read
    std::uint8_t damaged = 0;
  };

  Result<Slot*> free_slot();
  void fly(Slot&);
  void take_off(Slot&, DataLoop& mover);
  void landed(Slot&);
  void failed(Slot&, const Error&);
  Status write_chunk(const Record&, const wire::PieceT&, std::uint64_t offset, std::span<const std::byte> bytes);
  Status read_chunk(const Record&, MemberNo home, std::uint64_t offset, std::span<std::byte> into);
  Status read_local(const Record&, std::uint64_t offset, std::span<std::byte> into);
  // Waits until at most `busy` slots are in use; starts again what failed for a moment.
  Status wait_for(std::size_t busy);
  Duration restart(Instant now);

  Node& node_;
  std::mutex mutex_;
  std::condition_variable moved_;
  std::array<Slot, kSlots> slots_;
  std::size_t busy_ = 0;
  unsigned next_mover_ = 0;
  std::optional<Error> failure_;
  bool cancelled_ = false;
};

}  // namespace vrampool::service::data
