// The seam between the control plane (names, views, sessions, jobs) and the data plane (the engine thread and
// the movers, which own every piece, cache object, client view and data connection).
//
// The control thread calls; the data plane answers through `Done` callbacks that run on the control thread
// (posted through DataPlaneOptions::post). Commands are numbered and acknowledged inside; nothing is unlinked
// before every loop has let go of it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "base/unique_fd.h"
#include "wire/data_header.h"
#include "wire/local_generated.h"
#include "wire/membership_generated.h"
#include "wire/record_generated.h"

namespace vrampool::service {

using Done = std::function<void(Status)>;
template <class T>
using DoneWith = std::function<void(Result<T>)>;
using Record = std::shared_ptr<const wire::RecordT>;
using Sha256 = std::array<std::byte, 32>;

enum class PieceState : std::uint8_t { creating = 1, frozen = 2, sealed = 3 };

// What a piece's metadata object says after a restart; believed only if its self-checksum holds.
struct PieceReport {
  PieceId id{};
  PieceState state{};
  std::uint64_t segment_offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t token = 0;
  Incarnation incarnation{};
  std::uint64_t valid_pages = 0;
};

// A peer that data connections go to. `life` 0 in the view means gone: its connections close, its pages are lost.
struct Peer {
  MemberNo member{};
  Life life{};
  std::string host;
  std::uint16_t data_port = 0;
  bool tls = false;
};

struct Figures {  // counters since start; the status board shows them
  std::uint64_t capacity_bytes = 0, used_bytes = 0, cache_bytes = 0, pieces = 0, views = 0;
  std::uint64_t faults = 0, pages_fetched = 0, pages_served = 0, bytes_in = 0, bytes_out = 0;
  std::uint64_t crc_errors = 0, retries = 0, poisoned_pages = 0, evicted_pages = 0;
  std::uint64_t fault_p50_ns = 0, fault_p99_ns = 0;
};

struct DataPlaneOptions {
  Sender self{};
  Incarnation incarnation{};
  std::string memory_dir;  // where shared objects live (a tmpfs)
  std::string ledger_dir;  // state directory of the object ledger
  std::uint64_t capacity_bytes = 0;
  std::uint64_t cache_bytes = 0;  // what cache objects may hold before eviction starts
  unsigned movers = 2;
  std::string listen_address = "127.0.0.1";
  std::uint16_t data_port = 0;      // 0: any; see DataPlane::data_port()
  bool data_tls = false;            // insist on TLS for data
  std::vector<std::byte> pool_key;  // external PSK of TLS 1.3
  std::string pool_key_id;
  Duration fault_deadline = Duration::millis(kFaultDeadlineMs);
  Duration retry_every = Duration::millis(500);
  Duration spin = Duration::micros(0);  // how long the engine polls after activity before it blocks
  bool force_posix_faults = false;
  // Runs a function on the control thread.
  std::function<void(std::function<void()>)> post;
  // Control thread: fetch a one-time ticket for a data connection to `to` (over TLS). The answer may come late.
  std::function<void(MemberNo to, DoneWith<wire::Ticket>)> ask_ticket;
  // Control thread: something the control plane must know.
  std::function<void(MemberNo peer, std::string why)> peer_failed;
  std::function<void(ClientNo, wire::LossEventT)> loss;
};

// Bulk access for jobs (import, export, verify) and explicit transfers. Threads: one job each. Blocking, with a
// deadline; many requests are kept in flight inside.
class BulkChannel {
 public:
  virtual ~BulkChannel() = default;
  // Whole pages into a segment that is being created; crc32c per page is taken here and checked by the host.
  // `bytes` may be reused when write() returns; errors of earlier writes surface later, at the latest in flush().
  virtual Status write(const Record&, std::uint64_t offset, std::span<const std::byte> bytes) = 0;
  virtual Status flush() = 0;
  // Page-aligned ranges; checked against the hosts' crc32c. Several pieces and hosts at once.
  virtual Status read(const Record&, std::uint64_t offset, std::span<std::byte> bytes) = 0;
  virtual void cancel() = 0;
};

class DataPlane {
 public:
  // Starts the threads, opens the data listener, adopts what memory_dir holds.
  // Errors: port in use, memory_dir unusable.
  static Result<std::unique_ptr<DataPlane>> start(DataPlaneOptions);
  virtual ~DataPlane() = default;  // stops and joins; keeps every object for the next life

  virtual std::uint16_t data_port() const = 0;
  virtual const std::vector<PieceReport>& adopted() const = 0;
  virtual Figures figures() const = 0;  // Threads: any
  virtual void set_capacity(std::uint64_t bytes) = 0;
  virtual std::string fault_source() const = 0;  // "userfaultfd" or "posix (reason)"

  // ---- who lives ----
  virtual void set_members(const wire::ViewT& view, std::vector<Peer> peers) = 0;
  // A ticket that admits one data connection from `from`; valid for kConnectDeadlineMs.
  virtual wire::Ticket issue_ticket(Sender from) = 0;

  // ---- pieces on this node ----
  virtual void create_piece(SegmentId, const wire::PieceT&, std::uint64_t token, Done) = 0;
  virtual void freeze_piece(PieceId, std::uint64_t token, DoneWith<Sha256>) = 0;  // waits for bodies in flight
  virtual void seal_piece(PieceId, Done) = 0;
  virtual void free_piece(PieceId, Done) = 0;  // unpublish, every loop lets go, unlink

  // ---- segments as this node's clients see them ----
  // Makes a record known to the loops (placement for reads). Again with a newer layout_version: replaces it.
  virtual void open_record(Record) = 0;
  // The segment was removed: cached pages go when the last view goes; new maps are refused.
  virtual void close_record(SegmentId) = 0;

  struct MappedView {
    std::uint64_t view = 0;
    std::vector<wire::ViewPartT> parts;
    std::vector<UniqueFd> descriptors;  // one per part, read-only
  };
  // Lazy: answers at once. Resident: answers when every page is there (progress through figures()), or with the error.
  virtual void map(ClientNo, const wire::MapSegmentT&, DoneWith<MappedView>) = 0;
  virtual void attach_view(ClientNo, const wire::AttachViewT&, std::vector<UniqueFd> fault_descriptors, Done) = 0;
  virtual void unmap(ClientNo, std::uint64_t view, Done) = 0;
  virtual void client_gone(ClientNo) = 0;
  // The client's rights on the segment were checked: its data channels may name it. Needed for segments that not
  // everybody may read (mode without 0004).
  virtual void allow(ClientNo, SegmentId) {}
  // A unix stream socket that now speaks packed headers for that client.
  virtual void adopt_data_socket(ClientNo, UniqueFd, bool bulk) = 0;

  virtual void prefetch(const wire::PrefetchT&, Done) = 0;
  virtual void pin(ClientNo, const wire::PinRangeT&, Done) = 0;
  virtual void range_status(const wire::RangeStatusT&, DoneWith<wire::RangeStatusReplyT>) = 0;

  virtual std::unique_ptr<BulkChannel> bulk_channel() = 0;

  // ---- measuring: `count` page reads from `peer`, engine to engine; per-read nanoseconds ----
  struct BenchAsk {
    MemberNo peer{};
    std::uint32_t count = 0;
    std::uint32_t bytes = kPageBytes;
    bool echo = true;
    SegmentId segment{};
  };
  struct BenchAnswer {
    std::vector<std::uint32_t> ns;
    std::int64_t cpu_ns = 0;
  };
  virtual void bench_page_read(BenchAsk, DoneWith<BenchAnswer>) = 0;
};

}  // namespace vrampool::service
