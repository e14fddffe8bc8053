// Reads and writes of clients that one loop is carrying out: split by where the bytes live, asked of their hosts, put
// together, answered once.
//
// A read is any range of at most 1 MiB. A write is any range while it stays on this node; bytes for another node must
// start on a page, and what is missing of the last page is written as zeros.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "base/fixed_vector.h"
#include "service/data/peer_link.h"
#include "service/data/placement.h"

namespace vrampool::service::data {

class ClientLink;

// Threads: the loop's. Bounded by the loop's buffers: an operation holds one.
class ClientOps {
 public:
  explicit ClientOps(DataLoop& loop) : loop_(loop) {}
  ~ClientOps();
  void read(ClientLink&, const wire::DataHeader&);
  // Takes `bytes` if they are needed beyond the call.
  void write(ClientLink&, const wire::DataHeader&, Buffer& bytes);
  // The client is gone: its operations end without an answer.
  void forget(ClientLink&);
  Instant tick(Instant now);

 private:
  struct Part {
    std::uint64_t offset = 0;  // in the segment
    std::uint32_t length = 0;  // whole pages
    MemberNo home{};
    RequestNo request{};
    Instant again_at{};  // 0: under way
    std::uint8_t damaged = 0;
    bool done = false;
  };
  // A run of pieces can be as short as a page.
  static constexpr std::size_t kPartsMax = kPagesPerMessageMax + 2;

  struct Op final : Asker {
    explicit Op(ClientOps& o) : owner(o) {}
    std::span<std::byte> landing(std::uint64_t part) override;
    void answered(std::uint64_t part, const transport::Incoming&) override;
    void unanswered(std::uint64_t part, const Error&) override;
    std::span<std::byte> place(const Part& p) const { return buffer.bytes().subspan(p.offset - base, p.length); }

    ClientOps& owner;
    ClientLink* link = nullptr;
    wire::DataHeader ask{};
    std::uint64_t token = 0;
    Buffer buffer;
    std::uint64_t base = 0;  // segment offset of the buffer's first byte
    FixedVector<Part, kPartsMax> parts;
    std::size_t waiting = 0;
    Instant deadline{};
    std::optional<Error> failure;
    bool busy = false;
  };

  Op& start(ClientLink&, const wire::DataHeader&, Buffer buffer, std::uint64_t base);
  Result<Placement*> placement_of(const ClientLink&, const wire::DataHeader&);
  void write_to(Op&, const wire::PieceT& where, std::uint64_t from, std::uint64_t to);
  Status read_local(Op&, std::uint64_t offset, std::uint64_t length);
  Status write_local(Piece&, const wire::DataHeader&, std::uint64_t offset, std::span<const std::byte> bytes);
  void add_remote(Op&, MemberNo home, std::uint64_t offset, std::uint64_t length);
  void ask(Op&, std::size_t part);
  void later(Op&, std::size_t part, Duration delay);
  void part_failed(Op&, std::size_t part, const Error& why);
  void part_done(Op&, std::size_t part);
  void begin(Op&);
  void end(Op&);

  DataLoop& loop_;
  std::vector<std::unique_ptr<Op>> ops_;
  std::vector<Op*> idle_;
};

}  // namespace vrampool::service::data
