// A vector of at most N elements without heap: for outboxes and hot paths.
#pragma once

#include <array>
#include <cstddef>
#include <utility>

#include "base/assert.h"

namespace vrampool {

template <class T, std::size_t N>
class FixedVector {
 public:
  static constexpr std::size_t capacity() { return N; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  bool full() const { return size_ == N; }
  void push_back(T value) {
    VP_ASSERT(size_ < N);
    items_[size_++] = std::move(value);
  }
  void clear() { size_ = 0; }
  T& operator[](std::size_t i) {
    VP_ASSERT(i < size_);
    return items_[i];
  }
  const T& operator[](std::size_t i) const {
    VP_ASSERT(i < size_);
    return items_[i];
  }
  T* begin() { return items_.data(); }
  T* end() { return items_.data() + size_; }
  const T* begin() const { return items_.data(); }
  const T* end() const { return items_.data() + size_; }

 private:
  std::array<T, N> items_{};
  std::size_t size_ = 0;
};

}  // namespace vrampool
