#include "allocator/client_heap.h"

#include <algorithm>
#include <bit>

namespace vrampool::allocator {
namespace {

constexpr std::uint32_t kAlignment = 64;
constexpr std::uint32_t kSpanBytesMin = 64 * kAlignment * 16;
constexpr std::uint32_t kSpanBytesMax = 1u << 30;
constexpr std::uint32_t kSpansMax = 1u << 22;  // block numbers {span, index} stay below kNone

}  // namespace

Result<std::unique_ptr<ClientHeap>> ClientHeap::create(const Options& o) {
  if (!std::has_single_bit(o.span_bytes) || o.span_bytes < kSpanBytesMin || o.span_bytes > kSpanBytesMax)
    return error(VP_INVALID, "a span of {} bytes; a power of two from {} to {} is expected", o.span_bytes,
                 kSpanBytesMin, kSpanBytesMax);
  if (o.arena_bytes == 0 || o.arena_bytes % o.span_bytes != 0 || o.arena_bytes / o.span_bytes >= kSpansMax)
    return error(VP_INVALID, "a heap of {} bytes; 1 to {} spans of {} bytes are expected", o.arena_bytes, kSpansMax - 1,
                 o.span_bytes);
  if (o.exact_sizes.size() > kExactSizesMax)
    return error(VP_INVALID, "{} exact sizes are more than the {} allowed", o.exact_sizes.size(), kExactSizesMax);
  for (const auto size : o.exact_sizes)
    if (size < o.span_bytes / kBlocksPerSpanMax || size > o.span_bytes)
      return error(VP_INVALID, "exact size {} is not between a {}th of a span and a span of {} bytes", size,
                   kBlocksPerSpanMax, o.span_bytes);
  return std::unique_ptr<ClientHeap>(new ClientHeap(o));
}

ClientHeap::ClientHeap(const Options& o)
    : shift_(static_cast<std::uint32_t>(std::countr_zero(o.span_bytes))),
      unit_(o.span_bytes / kBlocksPerSpanMax),
      spans_(static_cast<std::size_t>(o.arena_bytes >> shift_)),
      links_(new std::uint32_t[spans_.size() * kBlocksPerSpanMax]),
      slots_(new Slot[kCachesMax]) {
  build_classes(o);
  for (std::uint32_t i = 0; i < kCachesMax; ++i) slots_[i].with_room.fill(kNone);
  for (std::size_t i = spans_.size(); i-- > 0;) push_span(static_cast<std::uint32_t>(i));
}

// span / n for n = 1, 2, ... 8, then an eighth more each time: nothing is left over at the end of a span.
void ClientHeap::build_classes(const Options& o) {
  for (std::uint32_t n = 1; n <= kBlocksPerSpanMax; n += std::max(1u, n / 8))
    class_bytes_.push_back(std::max(o.span_bytes / n / kAlignment * kAlignment, unit_));
  class_bytes_.push_back(unit_);
  for (const auto size : o.exact_sizes) class_bytes_.push_back((size + kAlignment - 1) / kAlignment * kAlignment);
  std::sort(class_bytes_.begin(), class_bytes_.end());
  class_bytes_.erase(std::unique(class_bytes_.begin(), class_bytes_.end()), class_bytes_.end());
  VP_ASSERT(class_bytes_.size() <= kClassesMax);
  class_at_.resize(kBlocksPerSpanMax + 1);
  for (std::uint32_t i = 1, c = 0; i <= kBlocksPerSpanMax; ++i) {
    while (class_bytes_[c] <= (i - 1) * unit_) ++c;
    class_at_[i] = c;
  }
}

std::uint32_t ClientHeap::class_of(std::uint32_t bytes) const {
  std::uint32_t c = class_at_[(bytes + unit_ - 1) / unit_];
  while (class_bytes_[c] < bytes) ++c;
  return c;
}

std::uint32_t ClientHeap::rounded_bytes(std::uint32_t bytes) const {
  return bytes == 0 || bytes > 1u << shift_ ? 0 : class_bytes_[class_of(bytes)];
}

// ---- Free spans, shared by all threads ----

void ClientHeap::push_span(std::uint32_t span) {
  std::uint64_t top = stack_.load(std::memory_order_relaxed);
  std::uint64_t mine = 0;
  do {
    spans_[span].stack_next.store(static_cast<std::uint32_t>(top), std::memory_order_relaxed);
    mine = ((top >> 32) + 1) << 32 | span;
  } while (!stack_.compare_exchange_weak(top, mine, std::memory_order_release, std::memory_order_relaxed));
}

std::uint32_t ClientHeap::pop_span() {
  std::uint64_t top = stack_.load(std::memory_order_acquire);
  while (static_cast<std::uint32_t>(top) != kNone) {
    const auto span = static_cast<std::uint32_t>(top);
    const std::uint32_t next = spans_[span].stack_next.load(std::memory_order_relaxed);
    if (stack_.compare_exchange_weak(top, ((top >> 32) + 1) << 32 | next, std::memory_order_acquire)) return span;
  }
  return kNone;
}

// ---- One cache's spans; called by the thread that has taken the slot ----

void ClientHeap::link(Slot& slot, std::uint32_t span) {
  Span& s = spans_[span];
  std::uint32_t& head = slot.with_room[s.size_class];
  s.previous = kNone;
  s.next = head;
  if (head != kNone) spans_[head].previous = span;
  head = span;
}

void ClientHeap::unlink(Slot& slot, std::uint32_t span) {
  Span& s = spans_[span];
  (s.previous == kNone ? slot.with_room[s.size_class] : spans_[s.previous].next) = s.next;
  if (s.next != kNone) spans_[s.next].previous = s.previous;
}

std::uint32_t ClientHeap::adopt_span(std::uint32_t slot, std::uint32_t size_class) {
  const std::uint32_t span = pop_span();
  if (span == kNone) return kNone;
  Span& s = spans_[span];
  s.owner = slot;
  s.size = class_bytes_[size_class];
  s.size_class = size_class;
  s.blocks = (1u << shift_) / s.size;
  s.carved = s.used = 0;
  s.free_head = kNone;
  link(slots_[slot], span);
  return span;
}

// The slow path: first what others freed, then a new span, then what lies about unused.
std::uint32_t ClientHeap::find_room(std::uint32_t slot, std::uint32_t size_class) {
  const std::uint32_t& head = slots_[slot].with_room[size_class];
  drain(slot);
  if (head != kNone) return head;
  if (adopt_span(slot, size_class) != kNone) return head;
  give_back_empty(slot);
  reclaim_idle();
  return adopt_span(slot, size_class);
}

void ClientHeap::free_own(std::uint32_t slot, std::uint32_t block) {
  const std::uint32_t span = block / kBlocksPerSpanMax;
  Span& s = spans_[span];
  VP_ASSERT(s.used != 0);
  links_[block] = s.free_head;
  s.free_head = block;
  if (s.used-- == s.blocks) link(slots_[slot], span);
  // One empty span per class is kept: a lone block that comes and goes must not move a span each time.
  if (s.used == 0 && (s.previous != kNone || s.next != kNone)) {
    unlink(slots_[slot], span);
    push_span(span);
  }
}

void ClientHeap::send(std::uint32_t block) {
  auto& inbox = slots_[spans_[block / kBlocksPerSpanMax].owner].inbox;
  std::uint32_t head = inbox.load(std::memory_order_relaxed);
  do {
    links_[block] = head;
  } while (!inbox.compare_exchange_weak(head, block, std::memory_order_release, std::memory_order_relaxed));
}

void ClientHeap::drain(std::uint32_t slot) {
  if (slots_[slot].inbox.load(std::memory_order_relaxed) == kNone) return;
  std::uint32_t block = slots_[slot].inbox.exchange(kNone, std::memory_order_acquire);
  while (block != kNone) {
    const std::uint32_t next = links_[block];
    free_own(slot, block);
    block = next;
  }
}

void ClientHeap::give_back_empty(std::uint32_t slot) {
  for (std::size_t c = 0; c < class_bytes_.size(); ++c) {
    for (std::uint32_t span = slots_[slot].with_room[c]; span != kNone;) {
      const std::uint32_t next = spans_[span].next;
      if (spans_[span].used == 0) {
        unlink(slots_[slot], span);
        push_span(span);
      }
      span = next;
    }
  }
}

// Caches whose thread is gone may still receive blocks; nobody else would empty their inboxes.
void ClientHeap::reclaim_idle() {
  for (std::uint32_t i = 0; i < kCachesMax; ++i) {
    if (slots_[i].taken.load(std::memory_order_relaxed) || slots_[i].taken.exchange(true, std::memory_order_acquire))
      continue;
    drain(i);
    give_back_empty(i);
    slots_[i].taken.store(false, std::memory_order_release);
  }
}

// ---- Caches ----

Result<ClientHeap::Cache> ClientHeap::acquire_cache() {
  for (std::uint32_t i = 0; i < kCachesMax; ++i)
    if (!slots_[i].taken.exchange(true, std::memory_order_acquire)) return Cache(this, i);
  return error(VP_BUSY, "{} threads use this heap already; no more can", kCachesMax);
}

ClientHeap::Cache::~Cache() {
  if (heap_ == nullptr) return;
  heap_->drain(slot_);
  heap_->give_back_empty(slot_);
  heap_->slots_[slot_].taken.store(false, std::memory_order_release);
}

std::optional<std::uint64_t> ClientHeap::Cache::allocate(std::uint32_t bytes) {
  ClientHeap& h = *heap_;
  if (bytes == 0 || bytes > 1u << h.shift_) return std::nullopt;
  const std::uint32_t size_class = h.class_of(bytes);
  std::uint32_t span = h.slots_[slot_].with_room[size_class];
  if (span == kNone) span = h.find_room(slot_, size_class);
  if (span == kNone) return std::nullopt;
  Span& s = h.spans_[span];
  std::uint32_t block = s.free_head;
  if (block != kNone)
    s.free_head = h.links_[block];
  else
    block = span * kBlocksPerSpanMax + s.carved++;
  if (++s.used == s.blocks) h.unlink(h.slots_[slot_], span);
  return (static_cast<std::uint64_t>(span) << h.shift_) +
         static_cast<std::uint64_t>(block % kBlocksPerSpanMax) * s.size;
}

void ClientHeap::Cache::free(std::uint64_t offset) {
  ClientHeap& h = *heap_;
  const std::uint64_t span = offset >> h.shift_;
  VP_ASSERT(span < h.spans_.size());
  const Span& s = h.spans_[span];
  const std::uint32_t within = static_cast<std::uint32_t>(offset) & ((1u << h.shift_) - 1);
  VP_ASSERT(s.size != 0 && within % s.size == 0);
  const std::uint32_t block = static_cast<std::uint32_t>(span) * kBlocksPerSpanMax + within / s.size;
  if (s.owner == slot_)
    h.free_own(slot_, block);
  else
    h.send(block);
}

}  // namespace vrampool::allocator
