// The shared memory between a client's signal handler and the daemon: fault slots, page states, revokes. Posix fault
// source only.
//
// Layout: FaultRing, then one state word per page of the view. The client creates it; its size can never change, so the
// daemon may map it without fear. The daemon trusts nothing in it but single words, each read once and checked.
//
// A page's state word is the one truth of what the client may have mapped:
//   - the daemon raises or lowers the granted access, with one atomic step;
//   - only a client thread changes the protection, holding the word's lock bit, to what the word says at that moment.
// So a thread that was granted a page and then slept cannot protect after a revoke was acknowledged: the revoke lowers
// the word first, the service thread takes the lock to apply it, and the sleeper finds the lowered word when its turn
// comes.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "platform/fault_source.h"

namespace vrampool::platform {

inline constexpr std::uint32_t kFaultRingMagic = 0x76705246;
inline constexpr std::uint32_t kFaultRingVersion = 1;
// Threads of one view that can wait at the same time with a slot of their own; more take turns.
inline constexpr std::size_t kFaultSlots = 256;
// Revokes that a client has not answered yet.
inline constexpr std::size_t kRevokesPendingMax = 256;

// free -> claimed -> posted (client), posted -> taken -> answered (daemon), any -> free (client).
enum class SlotState : std::uint32_t { free = 0, claimed, posted, taken, answered };

struct alignas(64) FaultSlot {
  std::atomic<std::uint32_t> state;   // SlotState; the futex word
  std::atomic<std::uint32_t> wanted;  // PageAccess
  std::atomic<std::uint64_t> page;
};

struct RevokeEntry {
  std::atomic<std::uint64_t> page;
  std::atomic<std::uint64_t> pages;
};

struct FaultRing {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint64_t pages;
  std::uint64_t granule;
  // Set by whoever rings, cleared by whoever drains: a byte goes over the socket only when it was clear.
  alignas(64) std::atomic<std::uint32_t> daemon_rung;
  alignas(64) std::atomic<std::uint32_t> client_rung;
  // Count up for ever; the difference is what is pending.
  alignas(64) std::atomic<std::uint32_t> revokes_posted;   // daemon
  alignas(64) std::atomic<std::uint32_t> revokes_applied;  // client
  std::array<FaultSlot, kFaultSlots> slots;
  std::array<RevokeEntry, kRevokesPendingMax> revokes;

  std::atomic<std::uint32_t>* page_states() { return reinterpret_cast<std::atomic<std::uint32_t>*>(this + 1); }
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(sizeof(FaultRing) % 64 == 0);

std::uint64_t fault_ring_bytes(std::uint64_t pages);

// One page's state word.
inline constexpr std::uint32_t kPageAccessBits = 3;
inline constexpr std::uint32_t kPageLocked = 1u << 31;
inline PageAccess granted_access(std::uint32_t word) {
  const std::uint32_t bits = word & kPageAccessBits;
  return bits > 2 ? PageAccess::none : static_cast<PageAccess>(bits);
}
// Both return what was granted before.
PageAccess raise_access(std::atomic<std::uint32_t>& word, PageAccess access);
PageAccess lower_access(std::atomic<std::uint32_t>& word, PageAccess left);
// Client only, with all signals blocked: a handler on the same thread could want the same page.
void lock_page(std::atomic<std::uint32_t>& word);
void unlock_page(std::atomic<std::uint32_t>& word);

// Sends one byte unless one is already under way. Threads: any, also in a signal handler.
void ring_bell(std::atomic<std::uint32_t>& rung, int socket);
// Takes the bytes and arms the bell again; false when the other side closed.
bool drain_bell(std::atomic<std::uint32_t>& rung, int socket);

}  // namespace vrampool::platform
