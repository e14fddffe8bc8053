// The identities of the pool. Ids are types, never bare integers, and none is ever used twice.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace vrampool {

// A 16-, 32- or 64-bit number with a meaning. `Tag` keeps two meanings apart at compile time.
template <class Tag, class Rep>
struct Number {
  using rep = Rep;
  Rep value{};
  constexpr Number() = default;
  constexpr explicit Number(Rep v) : value(v) {}
  constexpr auto operator<=>(const Number&) const = default;
};

// A random 128-bit name, written as 32 hex digits.
template <class Tag>
struct Uuid {
  std::uint64_t hi = 0;
  std::uint64_t lo = 0;
  constexpr auto operator<=>(const Uuid&) const = default;
  constexpr bool is_nil() const { return hi == 0 && lo == 0; }
};

// Given at join, dense, never reused. 0 means "nobody".
using MemberNo = Number<struct MemberNoTag, std::uint16_t>;
// A process start of one member: +1 and fsynced before the first packet.
using Life = Number<struct LifeTag, std::uint64_t>;
// The life at which a node's memory was last empty.
using Incarnation = Number<struct IncarnationTag, std::uint64_t>;
// A page of a segment: byte offset / kPageBytes.
using PageIndex = Number<struct PageIndexTag, std::uint64_t>;
// An asker's running number; unique together with (member, life).
using RequestNo = Number<struct RequestNoTag, std::uint64_t>;
// A client session of one daemon life.
using ClientNo = Number<struct ClientNoTag, std::uint64_t>;
// A numbered command from the control thread to a data loop.
using CommandNo = Number<struct CommandNoTag, std::uint64_t>;
// A pool address: [slot 16][offset 48]. It names no node, so data can move.
using PoolAddress = Number<struct PoolAddressTag, std::uint64_t>;

using NodeId = Uuid<struct NodeIdTag>;
using PoolId = Uuid<struct PoolIdTag>;
using KeyId = Uuid<struct KeyIdTag>;

// Who may lead. Ordered by count, then by member.
struct Term {
  std::uint64_t count = 0;
  MemberNo member{};
  constexpr auto operator<=>(const Term&) const = default;
};

// A published view of who is alive. Ordered lexicographically; only rises.
struct Epoch {
  Term term{};
  std::uint64_t n = 0;
  constexpr auto operator<=>(const Epoch&) const = default;
};

// A sender: a member in one of its lives. Judged against the view by every receiver.
struct Sender {
  MemberNo member{};
  Life life{};
  constexpr auto operator<=>(const Sender&) const = default;
};

// Never reused: made of the creator's member number, its life and a counter. Text: "3.12.7".
struct SegmentId {
  MemberNo member{};
  Life life{};
  std::uint64_t count = 0;
  constexpr auto operator<=>(const SegmentId&) const = default;
  constexpr bool is_nil() const { return member.value == 0; }
};

// One piece of a segment: `ordinal` counts the record's placement list. Text: "3.12.7/2".
struct PieceId {
  SegmentId segment{};
  std::uint32_t ordinal = 0;
  constexpr auto operator<=>(const PieceId&) const = default;
};

// The version of a registry record; the highest wins, a tombstone wins over all.
struct RecordVersion {
  Term term{};
  std::uint64_t seq = 0;
  constexpr auto operator<=>(const RecordVersion&) const = default;
};

std::string to_text(const SegmentId&);
std::string to_text(const PieceId&);
std::string to_text(const Epoch&);
std::string to_hex(std::uint64_t hi, std::uint64_t lo);
template <class Tag>
std::string to_text(const Uuid<Tag>& id) {
  return to_hex(id.hi, id.lo);
}
// 32 hex digits to {hi, lo}; nothing on any other input.
std::optional<std::array<std::uint64_t, 2>> parse_hex128(std::string_view text);
// "3.12.7" to a SegmentId; nothing on any other input.
std::optional<SegmentId> parse_segment_id(std::string_view text);

}  // namespace vrampool

template <class Tag, class Rep>
struct std::hash<vrampool::Number<Tag, Rep>> {
  std::size_t operator()(const vrampool::Number<Tag, Rep>& n) const noexcept { return std::hash<Rep>{}(n.value); }
};
template <>
struct std::hash<vrampool::SegmentId> {
  std::size_t operator()(const vrampool::SegmentId& s) const noexcept {
    std::uint64_t h = s.count * 0x9e3779b97f4a7c15ull;
    h = (h ^ s.life.value) * 0xbf58476d1ce4e5b9ull;
    return static_cast<std::size_t>((h ^ s.member.value) * 0x94d049bb133111ebull >> 3);
  }
};
template <>
struct std::hash<vrampool::PieceId> {
  std::size_t operator()(const vrampool::PieceId& p) const noexcept {
    return std::hash<vrampool::SegmentId>{}(p.segment) * 31 + p.ordinal;
  }
};
