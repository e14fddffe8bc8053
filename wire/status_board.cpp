// The seqlock of the status board: words are copied as relaxed atomics, so that a torn read is seen, never undefined.
#include "wire/status_board.h"

#include <atomic>
#include <cstring>
#include <vector>

#include "base/crc32c.h"

namespace vrampool::wire {
namespace {

using Word = std::atomic<std::uint64_t>;
static_assert(sizeof(Word) == 8 && Word::is_always_lock_free);

constexpr std::uint64_t kBoardMagic = 0x3144524f42505631;  // "1VPBORD1"
enum Slot : std::size_t {
  kSlotMagic,
  kSlotSequence,
  kSlotPid,
  kSlotUpdated,
  kSlotLife,
  kSlotLength,
  kSlotCrc,
  kSlotSpare,
  kSlotText
};
static_assert(kSlotText * 8 == kBoardBytes - kBoardTextMax);

Word* words(std::span<std::byte> memory) { return reinterpret_cast<Word*>(memory.data()); }
const Word* words(std::span<const std::byte> memory) { return reinterpret_cast<const Word*>(memory.data()); }

void put_text(Word* at, std::string_view text) {
  for (std::size_t i = 0; i < text.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + i, std::min<std::size_t>(8, text.size() - i));
    at[i / 8].store(word, std::memory_order_relaxed);
  }
}

std::string take_text(const Word* at, std::size_t length) {
  std::string text((length + 7) / 8 * 8, '\0');
  for (std::size_t i = 0; i < text.size(); i += 8) {
    const std::uint64_t word = at[i / 8].load(std::memory_order_relaxed);
    std::memcpy(text.data() + i, &word, 8);
  }
  text.resize(length);
  return text;
}

std::uint64_t crc_of(std::string_view text) { return crc32c(std::as_bytes(std::span(text.data(), text.size()))); }

}  // namespace

std::string board_path(const std::string& socket_path) {
  const auto slash = socket_path.rfind('/');
  const auto dot = socket_path.rfind('.');
  const bool suffix = dot != std::string::npos && (slash == std::string::npos || dot > slash);
  return socket_path.substr(0, suffix ? dot : std::string::npos) + ".board";
}

Status write_board(std::span<std::byte> memory, const BoardText& text) {
  if (memory.size() < kBoardBytes || text.json.size() > kBoardTextMax)
    return error(VP_INVALID, "status board: text of {} bytes", text.json.size());
  Word* w = words(memory);
  const std::uint64_t before = w[kSlotSequence].load(std::memory_order_relaxed) | 1;
  w[kSlotSequence].store(before, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  w[kSlotMagic].store(kBoardMagic, std::memory_order_relaxed);
  w[kSlotPid].store(text.pid, std::memory_order_relaxed);
  w[kSlotUpdated].store(static_cast<std::uint64_t>(text.updated.ns), std::memory_order_relaxed);
  w[kSlotLife].store(text.life.value, std::memory_order_relaxed);
  w[kSlotLength].store(text.json.size(), std::memory_order_relaxed);
  w[kSlotCrc].store(crc_of(text.json), std::memory_order_relaxed);
  put_text(w + kSlotText, text.json);
  w[kSlotSequence].store(before + 1, std::memory_order_release);
  return {};
}

Result<BoardText> read_board(std::span<const std::byte> memory) {
  if (memory.size() < kBoardBytes) return error(VP_CORRUPT, "status board: only {} bytes", memory.size());
  const Word* w = words(memory);
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const std::uint64_t before = w[kSlotSequence].load(std::memory_order_acquire);
    if (before % 2 == 1) continue;
    if (w[kSlotMagic].load(std::memory_order_relaxed) != kBoardMagic)
      return error(VP_CORRUPT, "status board: not written by vrampoold");
    const std::uint64_t length = w[kSlotLength].load(std::memory_order_relaxed);
    if (length > kBoardTextMax) continue;
    BoardText text;
    text.pid = static_cast<std::uint32_t>(w[kSlotPid].load(std::memory_order_relaxed));
    text.updated = Instant{static_cast<std::int64_t>(w[kSlotUpdated].load(std::memory_order_relaxed))};
    text.life = Life{w[kSlotLife].load(std::memory_order_relaxed)};
    text.json = take_text(w + kSlotText, length);
    const std::uint64_t crc = w[kSlotCrc].load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (w[kSlotSequence].load(std::memory_order_relaxed) == before && crc == crc_of(text.json)) return text;
  }
  return error(VP_BUSY, "status board: the daemon stopped while writing it");
}

}  // namespace vrampool::wire
