// Page-aligned transfer buffers of one loop: taken and given back, bounded, allocated when first needed.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/limits.h"

namespace vrampool::service::data {

// A message's pages and one more at each end, for ranges that start and end inside a page.
inline constexpr std::size_t kBufferBytes = (kPagesPerMessageMax + 2) * kPageBytes;

class BufferPool;

// Threads: the loop's. Ownership: returns to its pool by itself.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& o) noexcept : pool_(std::exchange(o.pool_, nullptr)), memory_(std::exchange(o.memory_, nullptr)) {}
  Buffer& operator=(Buffer&& o) noexcept {
    if (this != &o) {
      give_back();
      pool_ = std::exchange(o.pool_, nullptr);
      memory_ = std::exchange(o.memory_, nullptr);
    }
    return *this;
  }
  ~Buffer() { give_back(); }
  explicit operator bool() const { return memory_ != nullptr; }
  std::span<std::byte> bytes() const { return {memory_, memory_ == nullptr ? 0 : kBufferBytes}; }

 private:
  friend class BufferPool;
  Buffer(BufferPool* pool, std::byte* memory) : pool_(pool), memory_(memory) {}
  void give_back();
  BufferPool* pool_ = nullptr;
  std::byte* memory_ = nullptr;
};

class BufferPool {
 public:
  explicit BufferPool(std::size_t buffers_max) : max_(buffers_max) {}
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;
  // Empty when all are in use.
  Buffer take();

 private:
  friend class Buffer;
  std::size_t max_;
  std::size_t made_ = 0;
  std::vector<std::byte*> free_;
};

}  // namespace vrampool::service::data
