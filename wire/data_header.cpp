#include "wire/data_header.h"

#include <bit>
#include <cstring>
#include <type_traits>

#include "base/crc32c.h"

namespace vrampool::wire {
namespace {

static_assert(std::endian::native == std::endian::little, "the packed header is written as it stands in memory");
constexpr std::uint16_t kMagic = 0x5056;  // "VP"

struct Packed {
  std::uint16_t magic;
  std::uint8_t version;
  std::uint8_t kind;
  std::uint8_t flags;
  std::uint8_t ttl;
  std::uint16_t status;
  std::uint16_t source_member;
  std::uint16_t destination;
  std::uint16_t term_member;
  std::uint16_t segment_member;
  std::uint64_t source_life;
  std::uint64_t term_count;
  std::uint64_t epoch_n;
  std::uint64_t request;
  std::uint64_t segment_life;
  std::uint64_t segment_count;
  std::uint64_t offset;
  std::uint64_t token;
  std::uint32_t layout_version;
  std::uint32_t length;
  std::uint32_t payload_bytes;
  std::uint32_t crc;
};
static_assert(sizeof(Packed) == kDataHeaderBytes && std::is_trivially_copyable_v<Packed>);

}  // namespace

DataHeaderBytes encode(const DataHeader& h) {
  Packed p{};
  p.magic = kMagic;
  p.version = kDataVersion;
  p.kind = static_cast<std::uint8_t>(h.kind);
  p.flags = h.flags;
  p.ttl = h.ttl;
  p.status = h.status;
  p.source_member = h.source.member.value;
  p.destination = h.destination.value;
  p.term_member = h.epoch.term.member.value;
  p.segment_member = h.segment.member.value;
  p.source_life = h.source.life.value;
  p.term_count = h.epoch.term.count;
  p.epoch_n = h.epoch.n;
  p.request = h.request.value;
  p.segment_life = h.segment.life.value;
  p.segment_count = h.segment.count;
  p.offset = h.offset;
  p.token = h.token;
  p.layout_version = h.layout_version;
  p.length = h.length;
  p.payload_bytes = h.payload_bytes;
  DataHeaderBytes out;
  std::memcpy(out.data(), &p, sizeof p);
  const auto crc = crc32c(std::span(out).first(sizeof p - 4));
  std::memcpy(out.data() + sizeof p - 4, &crc, 4);
  return out;
}

Result<DataHeader> decode_data_header(std::span<const std::byte, kDataHeaderBytes> bytes) {
  Packed p;
  std::memcpy(&p, bytes.data(), sizeof p);
  if (p.magic != kMagic) return error(VP_CORRUPT, "not a vrampool data message");
  if (p.version != kDataVersion)
    return error(VP_UNSUPPORTED, "data message of version {}, this side speaks {}", p.version, kDataVersion);
  if (p.crc != crc32c(bytes.first(kDataHeaderBytes - 4))) return error(VP_CORRUPT, "damaged data message header");
  if (p.kind < 1 || p.kind > static_cast<std::uint8_t>(DataKind::pong))
    return error(VP_CORRUPT, "unknown data message {}", p.kind);
  if (p.payload_bytes > kDataPayloadBytesMax || p.length > kPagesPerMessageMax * kPageBytes)
    return error(VP_CORRUPT, "data message of {} bytes is larger than allowed", p.payload_bytes);
  if (p.offset > kPoolSlotBytes || p.offset + p.length > kPoolSlotBytes)
    return error(VP_CORRUPT, "data message beyond the end of any segment");
  DataHeader h;
  h.kind = static_cast<DataKind>(p.kind);
  h.flags = p.flags;
  h.ttl = p.ttl;
  h.status = p.status;
  h.source = {MemberNo{p.source_member}, Life{p.source_life}};
  h.destination = MemberNo{p.destination};
  h.epoch = {{p.term_count, MemberNo{p.term_member}}, p.epoch_n};
  h.request = RequestNo{p.request};
  h.segment = {MemberNo{p.segment_member}, Life{p.segment_life}, p.segment_count};
  h.layout_version = p.layout_version;
  h.offset = p.offset;
  h.length = p.length;
  h.payload_bytes = p.payload_bytes;
  h.token = p.token;
  return h;
}

}  // namespace vrampool::wire
