#include "allocator/small_allocator.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace vrampool::allocator {

Result<SmallAllocator> SmallAllocator::create(const Options& o) {
  if (!std::has_single_bit(o.granule_bytes))
    return error(VP_INVALID, "a granule of {} bytes is no power of two", o.granule_bytes);
  const std::uint64_t granules = o.arena_bytes / o.granule_bytes;
  if (granules == 0 || granules >= kNone)
    return error(VP_INVALID, "an arena of {} bytes; 1 to {} granules of {} bytes are expected", o.arena_bytes,
                 kNone - 1, o.granule_bytes);
  if (o.blocks_max == 0 || o.blocks_max >= kNone) return error(VP_INVALID, "blocks_max is {}", o.blocks_max);
  SmallAllocator a;
  a.granule_ = o.granule_bytes;
  a.arena_ = static_cast<std::uint32_t>(granules);
  a.blocks_max_ = o.blocks_max;
  a.blocks_.reserve(o.blocks_max);
  a.spare_.reserve(o.blocks_max);
  for (auto& row : a.heads_) row.fill(kNone);
  a.blocks_.push_back({0, a.arena_, kNone, kNone, kNone, kNone, false});
  a.link(0);
  return a;
}

// Below 32 granules each size is a class; above, 32 classes per doubling.
SmallAllocator::Class SmallAllocator::class_of(std::uint32_t size) {
  if (size < kSecond) return {0, size};
  const unsigned top = static_cast<unsigned>(std::bit_width(size)) - 1;
  return {top - kSecondBits + 1, (size >> (top - kSecondBits)) - kSecond};
}

void SmallAllocator::link(std::uint32_t block) {
  Block& b = blocks_[block];
  const Class c = class_of(b.size);
  std::uint32_t& head = heads_[c.first][c.second];
  b.used = false;
  b.previous = kNone;
  b.next = head;
  if (head != kNone) blocks_[head].previous = block;
  head = block;
  first_map_ |= 1u << c.first;
  second_map_[c.first] |= 1u << c.second;
}

void SmallAllocator::unlink(std::uint32_t block) {
  const Block& b = blocks_[block];
  const Class c = class_of(b.size);
  if (b.next != kNone) blocks_[b.next].previous = b.previous;
  if (b.previous != kNone) {
    blocks_[b.previous].next = b.next;
    return;
  }
  heads_[c.first][c.second] = b.next;
  if (b.next != kNone) return;
  second_map_[c.first] &= ~(1u << c.second);
  if (second_map_[c.first] == 0) first_map_ &= ~(1u << c.first);
}

// The best of the first few blocks of the class in which the size itself lies.
std::uint32_t SmallAllocator::find_in_own_class(Class own, std::uint32_t size) const {
  std::uint32_t best = kNone;
  std::uint32_t at = heads_[own.first][own.second];
  for (int looks = 0; at != kNone && looks < kOwnClassLooks; ++looks, at = blocks_[at].next) {
    const std::uint32_t have = blocks_[at].size;
    if (have >= size && (best == kNone || have < blocks_[best].size)) best = at;
    if (have == size) break;
  }
  return best;
}

// The first block of the next class that has any: all of those are large enough.
std::uint32_t SmallAllocator::find_above(Class own) const {
  const std::uint32_t same_row = second_map_[own.first] & (own.second + 1 < kSecond ? ~0u << (own.second + 1) : 0u);
  if (same_row != 0) return heads_[own.first][static_cast<unsigned>(std::countr_zero(same_row))];
  const std::uint32_t rows = own.first + 1 < kFirst ? first_map_ & (~0u << (own.first + 1)) : 0u;
  if (rows == 0) return kNone;
  const auto first = static_cast<unsigned>(std::countr_zero(rows));
  return heads_[first][static_cast<unsigned>(std::countr_zero(second_map_[first]))];
}

std::uint32_t SmallAllocator::find(std::uint32_t size) const {
  const Class own = class_of(size);
  if (const std::uint32_t near = find_in_own_class(own, size); near != kNone) return near;
  if (const std::uint32_t above = find_above(own); above != kNone) return above;
  // Before saying no, look at the whole own class; only then is "full" exact.
  for (std::uint32_t at = heads_[own.first][own.second]; at != kNone; at = blocks_[at].next)
    if (blocks_[at].size >= size) return at;
  return kNone;
}

// Cuts `block` to `size` and frees the rest. False when there is no mark left for the rest.
bool SmallAllocator::split(std::uint32_t block, std::uint32_t size) {
  if (blocks_[block].size == size) return true;
  std::uint32_t rest = kNone;
  if (!spare_.empty()) {
    rest = spare_.back();
    spare_.pop_back();
  } else if (blocks_.size() < blocks_max_) {
    rest = static_cast<std::uint32_t>(blocks_.size());
    blocks_.emplace_back();
  } else {
    return false;
  }
  Block& b = blocks_[block];
  blocks_[rest] = {b.start + size, b.size - size, block, b.after, kNone, kNone, false};
  if (b.after != kNone) blocks_[b.after].before = rest;
  b.after = rest;
  b.size = size;
  link(rest);
  return true;
}

void SmallAllocator::merge_into(std::uint32_t keep, std::uint32_t gone) {
  Block& k = blocks_[keep];
  k.size += blocks_[gone].size;
  k.after = blocks_[gone].after;
  if (k.after != kNone) blocks_[k.after].before = keep;
  spare_.push_back(gone);
}

std::optional<SmallAllocator::Allocation> SmallAllocator::allocate(std::uint64_t bytes) {
  if (bytes == 0 || bytes > arena_bytes()) return std::nullopt;
  const auto size = static_cast<std::uint32_t>((bytes + granule_ - 1) / granule_);
  const std::uint32_t block = find(size);
  if (block == kNone) return std::nullopt;
  unlink(block);
  if (!split(block, size)) return link(block), std::nullopt;
  blocks_[block].used = true;
  used_ += size;
  return Allocation{static_cast<std::uint64_t>(blocks_[block].start) * granule_,
                    static_cast<std::uint64_t>(size) * granule_, block};
}

void SmallAllocator::free(const Allocation& a) {
  std::uint32_t block = a.block;
  VP_ASSERT(block < blocks_.size());
  const Block& b = blocks_[block];
  VP_ASSERT(b.used && static_cast<std::uint64_t>(b.start) * granule_ == a.offset &&
            static_cast<std::uint64_t>(b.size) * granule_ == a.bytes);
  used_ -= b.size;
  blocks_[block].used = false;
  if (const std::uint32_t after = b.after; after != kNone && !blocks_[after].used) {
    unlink(after);
    merge_into(block, after);
  }
  if (const std::uint32_t before = b.before; before != kNone && !blocks_[before].used) {
    unlink(before);
    merge_into(before, block);
    block = before;
  }
  link(block);
}

std::uint64_t SmallAllocator::largest_free_bytes() const {
  if (first_map_ == 0) return 0;
  const auto first = static_cast<unsigned>(std::bit_width(first_map_)) - 1;
  const auto second = static_cast<unsigned>(std::bit_width(second_map_[first])) - 1;
  std::uint32_t largest = 0;
  for (std::uint32_t at = heads_[first][second]; at != kNone; at = blocks_[at].next)
    largest = std::max(largest, blocks_[at].size);
  return static_cast<std::uint64_t>(largest) * granule_;
}

void SmallAllocator::check() const {
  std::uint32_t first_block = 0;
  while (blocks_[first_block].before != kNone) first_block = blocks_[first_block].before;
  std::uint64_t end = 0;
  std::uint64_t used = 0;
  std::size_t free_blocks = 0;
  bool free_before = false;
  for (std::uint32_t at = first_block, before = kNone; at != kNone; before = at, at = blocks_[at].after) {
    const Block& b = blocks_[at];
    VP_ASSERT(b.before == before && b.start == end && b.size != 0);
    VP_ASSERT(b.used || !free_before);
    free_before = !b.used;
    free_blocks += b.used ? 0 : 1;
    used += b.used ? b.size : 0;
    end += b.size;
  }
  VP_ASSERT(end == arena_ && used == used_);
  for (unsigned f = 0; f < kFirst; ++f) {
    VP_ASSERT(((first_map_ >> f) & 1) == (second_map_[f] != 0));
    for (unsigned s = 0; s < kSecond; ++s) {
      VP_ASSERT(((second_map_[f] >> s) & 1) == (heads_[f][s] != kNone));
      for (std::uint32_t at = heads_[f][s]; at != kNone; at = blocks_[at].next) {
        const Class c = class_of(blocks_[at].size);
        VP_ASSERT(!blocks_[at].used && c.first == f && c.second == s && free_blocks-- != 0);
      }
    }
  }
  VP_ASSERT(free_blocks == 0);
}

}  // namespace vrampool::allocator
