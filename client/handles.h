// Tables of what handles name: a number with a kind, a generation and an index, so that a closed one is noticed.
//
// Threads: any. Ownership: the table holds one reference; find() gives another, so an object outlives a concurrent
// close. Units: id = [kind 4][generation 28][index + 1, 32].
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/result.h"

namespace vrampool::client {

enum class HandleKind : std::uint8_t { session = 1, segment = 2, view = 3, token = 4 };
const char* to_text(HandleKind kind);

template <class T>
class HandleTable {
 public:
  HandleTable(HandleKind kind, std::size_t most) : kind_(kind), most_(most) {}

  Result<std::uint64_t> add(std::shared_ptr<T> object) {
    const std::lock_guard hold(mutex_);
    if (free_.empty() && slots_.size() >= most_) {
      return error(VP_NO_SPACE, "{} {}s are open, the most there can be; close some", most_, to_text(kind_));
    }
    const std::uint32_t index = take_index();
    slots_[index].object = std::move(object);
    return id_of(index);
  }

  // VP_INVALID: never a handle of this kind; VP_INVALID too once closed (the text says which).
  Result<std::shared_ptr<T>> find(std::uint64_t id) const {
    const std::lock_guard hold(mutex_);
    const Slot* slot = slot_of(id);
    if (slot == nullptr) return no_such(id);
    return slot->object;
  }

  Result<std::shared_ptr<T>> take(std::uint64_t id) {
    const std::lock_guard hold(mutex_);
    Slot* slot = const_cast<Slot*>(slot_of(id));
    if (slot == nullptr) return no_such(id);
    std::shared_ptr<T> object = std::move(slot->object);
    slot->generation = (slot->generation + 1) & kGenerationMask;
    free_.push_back(index_of(id));
    return object;
  }

  // Another object under the same handle; returns the one before.
  std::shared_ptr<T> replace(std::uint64_t id, std::shared_ptr<T> object) {
    const std::lock_guard hold(mutex_);
    Slot* slot = const_cast<Slot*>(slot_of(id));
    if (slot != nullptr) slot->object.swap(object);
    return object;
  }

  // Takes out everything that `wanted` says yes to.
  template <class Wanted>
  std::vector<std::shared_ptr<T>> take_if(Wanted&& wanted) {
    const std::lock_guard hold(mutex_);
    std::vector<std::shared_ptr<T>> out;
    for (std::uint32_t i = 0; i < slots_.size(); ++i) {
      if (!slots_[i].object || !wanted(*slots_[i].object)) continue;
      out.push_back(std::move(slots_[i].object));
      slots_[i].object = nullptr;
      slots_[i].generation = (slots_[i].generation + 1) & kGenerationMask;
      free_.push_back(i);
    }
    return out;
  }

  // Held across fork(), so that the child finds the table whole.
  void lock_for_fork() { mutex_.lock(); }
  void unlock_after_fork() { mutex_.unlock(); }

 private:
  static constexpr std::uint32_t kGenerationMask = (1u << 28) - 1;
  struct Slot {
    std::uint32_t generation = 0;
    std::shared_ptr<T> object;
  };

  std::uint32_t take_index() {
    if (free_.empty()) {
      slots_.emplace_back();
      return static_cast<std::uint32_t>(slots_.size() - 1);
    }
    const std::uint32_t index = free_.back();
    free_.pop_back();
    return index;
  }
  std::uint64_t id_of(std::uint32_t index) const {
    return static_cast<std::uint64_t>(kind_) << 60 | static_cast<std::uint64_t>(slots_[index].generation) << 32 |
           (index + 1u);
  }
  static std::uint32_t index_of(std::uint64_t id) { return static_cast<std::uint32_t>(id) - 1; }
  const Slot* slot_of(std::uint64_t id) const {
    const std::uint32_t index = index_of(id);
    if (index >= slots_.size() || !slots_[index].object || id_of(index) != id) return nullptr;
    return &slots_[index];
  }
  Error no_such(std::uint64_t id) const {
    if (id == 0) return error(VP_INVALID, "no {}: the handle is empty", to_text(kind_));
    return error(VP_INVALID, "this {} is closed, or the handle is of another kind", to_text(kind_));
  }

  const HandleKind kind_;
  const std::size_t most_;
  // Not a shared_mutex: a child may not unlock one that its parent locked, because its thread has another number.
  mutable std::mutex mutex_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
};

}  // namespace vrampool::client
