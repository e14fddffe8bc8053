#include "service/data/piece_meta.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <new>
#include <type_traits>

#include "base/crc32c.h"

namespace vrampool::service::data {
namespace {

constexpr std::uint64_t kMagic = 0x3154454d44505656ull;  // "VVPDMET1"
constexpr std::size_t kSlotBytes = 4096;
constexpr std::size_t kBitmapOffset = kPageBytes;

struct Slot {
  std::uint64_t magic;
  std::uint32_t format;
  std::uint8_t kind, state, granted_resident, copy;
  std::uint64_t sequence;
  std::uint64_t segment_life, segment_count;
  std::uint32_t segment_member, ordinal;
  std::uint64_t segment_offset, bytes, token, incarnation, boot_hi, boot_lo;
  std::uint32_t reserved;
  std::uint32_t crc;
};
static_assert(std::is_trivially_copyable_v<Slot> && sizeof(Slot) < kSlotBytes);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && sizeof(std::atomic<std::uint64_t>) == 8);

std::uint64_t round_up(std::uint64_t n) { return (n + kPageBytes - 1) / kPageBytes * kPageBytes; }
std::uint64_t page_count(std::uint64_t data_bytes) { return (data_bytes + kPageBytes - 1) / kPageBytes; }
std::uint64_t bitmap_bytes(std::uint64_t pages) { return round_up((pages + 63) / 64 * 8); }

std::uint32_t checksum(const Slot& s) {
  return crc32c(std::as_bytes(std::span(&s, 1)).first(sizeof(Slot) - sizeof s.crc));
}

std::optional<Slot> read_slot(std::span<const std::byte> memory, std::size_t which) {
  Slot s;
  std::memcpy(&s, memory.data() + which * kSlotBytes, sizeof s);
  if (s.magic != kMagic || s.crc != checksum(s)) return std::nullopt;
  return s;
}

Slot pack(const MetaHeader& h, std::uint64_t sequence) {
  Slot s{};
  s.magic = kMagic;
  s.format = kMetaFormat;
  s.kind = static_cast<std::uint8_t>(h.kind);
  s.state = h.state;
  s.granted_resident = h.granted_resident ? 1 : 0;
  s.copy = h.copy;
  s.sequence = sequence;
  s.segment_life = h.segment.life.value;
  s.segment_count = h.segment.count;
  s.segment_member = h.segment.member.value;
  s.ordinal = h.ordinal;
  s.segment_offset = h.segment_offset;
  s.bytes = h.bytes;
  s.token = h.token;
  s.incarnation = h.incarnation.value;
  s.boot_hi = h.boot.hi;
  s.boot_lo = h.boot.lo;
  s.crc = checksum(s);
  return s;
}

MetaHeader unpack(const Slot& s) {
  MetaHeader h;
  h.kind = static_cast<MetaKind>(s.kind);
  h.state = s.state;
  h.granted_resident = s.granted_resident != 0;
  h.copy = s.copy;
  h.segment = {MemberNo{static_cast<std::uint16_t>(s.segment_member)}, Life{s.segment_life}, s.segment_count};
  h.ordinal = s.ordinal;
  h.segment_offset = s.segment_offset;
  h.bytes = s.bytes;
  h.token = s.token;
  h.incarnation = Incarnation{s.incarnation};
  h.boot = {s.boot_hi, s.boot_lo};
  return h;
}

struct alignas(kPageBytes) FixedPage {
  std::array<std::byte, kPageBytes> bytes;
};
const FixedPage kZeroes{};
const FixedPage& ones() {
  static const FixedPage page = [] {
    FixedPage p;
    p.bytes.fill(std::byte{0xff});
    return p;
  }();
  return page;
}

}  // namespace

std::uint64_t PieceMeta::object_bytes(std::uint64_t data_bytes) {
  const auto pages = page_count(data_bytes);
  return crc_offset(pages) + round_up(pages * sizeof(std::uint32_t));
}

std::uint64_t PieceMeta::crc_offset(std::uint64_t pages) { return kBitmapOffset + bitmap_bytes(pages); }

void PieceMeta::lay_out(std::span<std::byte> memory, std::uint64_t data_bytes) {
  VP_ASSERT(memory.size() >= object_bytes(data_bytes));
  memory_ = memory;
  pages_ = page_count(data_bytes);
  bits_ = reinterpret_cast<std::atomic<std::uint64_t>*>(memory.data() + kBitmapOffset);
  crcs_ = reinterpret_cast<std::uint32_t*>(memory.data() + crc_offset(pages_));
}

PieceMeta PieceMeta::format(std::span<std::byte> memory, const MetaHeader& header) {
  PieceMeta m;
  m.lay_out(memory, header.bytes);
  m.store(header);
  return m;
}

Result<PieceMeta> PieceMeta::open(std::span<std::byte> memory) {
  if (memory.size() < kBitmapOffset)
    return error(VP_CORRUPT, "metadata object of {} bytes is too short", memory.size());
  auto a = read_slot(memory, 0);
  const auto b = read_slot(memory, 1);
  if (!a || (b && b->sequence > a->sequence)) a = b;
  if (!a) return error(VP_CORRUPT, "metadata object holds no sound header");
  if (a->format > kMetaFormat)
    return error(VP_UNSUPPORTED, "metadata object of format {}, this daemon knows {}", a->format, kMetaFormat);
  if (a->bytes == 0 || a->bytes > kPoolSlotBytes || object_bytes(a->bytes) > memory.size())
    return error(VP_CORRUPT, "metadata object is too short for {} bytes of data", a->bytes);
  PieceMeta m;
  m.lay_out(memory, a->bytes);
  m.sequence_ = a->sequence;
  m.header_ = unpack(*a);
  return m;
}

void PieceMeta::store(const MetaHeader& header) {
  header_ = header;
  const Slot s = pack(header, ++sequence_);
  std::memcpy(memory_.data() + sequence_ % 2 * kSlotBytes, &s, sizeof s);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

std::uint64_t PieceMeta::count_valid() const {
  std::uint64_t n = 0;
  for (std::uint64_t w = 0; w < (pages_ + 63) / 64; ++w)
    n += static_cast<std::uint64_t>(std::popcount(bits_[w].load(std::memory_order_relaxed)));
  return n;
}

std::uint64_t PieceMeta::run_end(std::uint64_t page, std::uint64_t end) const {
  const bool like = valid(page);
  const std::uint64_t whole = like ? ~0ull : 0ull;
  while (++page < end) {
    if (page % 64 == 0 && page + 64 <= end && bits_[page / 64].load(std::memory_order_acquire) == whole) {
      page += 63;
      continue;
    }
    if (valid(page) != like) return page;
  }
  return end;
}

std::uint32_t zero_page_crc() {
  static const std::uint32_t crc = crc32c(kZeroes.bytes);
  return crc;
}
std::span<const std::byte, kPageBytes> zero_page() { return kZeroes.bytes; }
std::span<const std::byte, kPageBytes> poison_page() { return ones().bytes; }

}  // namespace vrampool::service::data
