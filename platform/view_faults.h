// The daemon's side of one client's lazy view: read its faults, reveal pages, take them back.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "platform/client_view.h"
#include "platform/fault_source.h"

namespace vrampool::platform {

struct ViewEvent {
  enum class Kind : std::uint8_t {
    fault,    // a thread waits for this page (again, perhaps: answer duplicates alike)
    revoked,  // a revoke that was `pending` is done for [offset, +bytes)
    gone      // the client's side is broken or closed: drop the view
  };
  Kind kind = Kind::fault;
  bool write = false;        // fault: wants to write
  std::uint64_t offset = 0;  // in the view, multiple of the granule
  std::uint64_t bytes = 0;   // fault: one granule
};

// One call reveals at most this much: keeps the engine thread's steps short.
inline constexpr std::uint64_t kRevealBytesMax = 2u << 20;
inline constexpr std::size_t kRevealPagesMax = kRevealBytesMax / kPageBytes;

struct Revealed {
  std::uint32_t pages = 0;                // now visible to the client (those that already were included)
  std::bitset<kRevealPagesMax> absent{};  // bit i: page i of the range is not in the object: fill it and reveal again
  bool gone = false;                      // the client is dead or unmapped the view
  bool again = false;                     // the client is changing its mappings: read events, then reveal again
};

enum class RevokeState : std::uint8_t {
  done,     // the client has no more than `left` of the range
  pending,  // a ViewEvent::revoked will follow; a client that does not answer in time must be cut off
  full,     // too many revokes pending: read events, then ask again
  gone
};

// REQUIRES of every call: the caller holds the page's state (fill, reveal and punch of one page exclude each other);
// only pages that are completely filled are revealed. The kernel's idea of presence is a hint, the caller's table the
// truth. Threads: one at a time. Blocking: never waits for the client, but userfaultfd calls take its memory-map lock.
class ViewFaults {
 public:
  // From what the client sent with AttachView. `client_base`: the view's address in the client, only ever given back to
  // the kernel. Also the take-over after a daemon restart: faults that the old daemon had read are delivered again.
  // VP_INVALID when the descriptors are not what they should be.
  static Result<std::unique_ptr<ViewFaults>> attach(FaultSourceKind kind, AttachDescriptors descriptors,
                                                    std::uint64_t client_base, std::uint64_t bytes);
  virtual ~ViewFaults() = default;

  virtual FaultSourceKind kind() const = 0;
  // Readable (in a Poller) when events wait; hung up when the client is broken.
  virtual int fd() const = 0;
  std::uint64_t bytes() const { return bytes_; }

  // Events that wait now, at most out.size(); returns how many. Call until it returns less than it could. Allocates
  // nothing.
  virtual std::size_t read_events(std::span<ViewEvent> out) = 0;

  // Makes [offset, +bytes) visible and wakes all who wait there. `access` write: without write protection.
  // REQUIRES: multiples of the granule, bytes <= kRevealBytesMax.
  virtual Revealed reveal(std::uint64_t offset, std::uint64_t bytes, PageAccess access) = 0;

  // Takes rights away until at most `left` remains. left == none: also needed before the object is punched, and always
  // `done` with userfaultfd, where the punch itself does it. left == read: after `done` no write of the client reaches
  // the page.
  virtual RevokeState revoke(std::uint64_t offset, std::uint64_t bytes, PageAccess left) = 0;

  // Makes everyone who waits in the range fault again: after a punch with waiting writers, after a take-over.
  virtual void wake(std::uint64_t offset, std::uint64_t bytes) = 0;

 protected:
  explicit ViewFaults(std::uint64_t bytes) : bytes_(bytes) {}
  bool holds(std::uint64_t offset, std::uint64_t bytes) const { return offset <= bytes_ && bytes <= bytes_ - offset; }
  std::uint64_t bytes_;
};

}  // namespace vrampool::platform
