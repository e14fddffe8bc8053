#include "service/data/buffers.h"

#include <new>
#include <utility>

#include "base/assert.h"

namespace vrampool::service::data {

void Buffer::give_back() {
  if (memory_ != nullptr) pool_->free_.push_back(memory_);
  memory_ = nullptr;
}

Buffer BufferPool::take() {
  if (free_.empty()) {
    if (made_ == max_) return {};
    ++made_;
    free_.reserve(made_);  // giving back never allocates
    free_.push_back(static_cast<std::byte*>(::operator new (kBufferBytes, std::align_val_t{kPageBytes})));
  }
  std::byte* memory = free_.back();
  free_.pop_back();
  return {this, memory};
}

BufferPool::~BufferPool() {
  VP_ASSERT(free_.size() == made_);
  for (std::byte* memory : free_) ::operator delete (memory, std::align_val_t{kPageBytes});
}

}  // namespace vrampool::service::data
