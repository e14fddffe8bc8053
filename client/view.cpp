#include "client/view.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace vrampool::client {

bool View::lazy() const {
  const std::lock_guard hold(mutex_);
  return std::any_of(regions_.begin(), regions_.end(), [](const Region& r) { return r.faults; });
}

bool View::is_region(std::uint64_t daemon_view) const {
  const std::lock_guard hold(mutex_);
  return std::any_of(regions_.begin(), regions_.end(), [&](const Region& r) { return r.daemon_view == daemon_view; });
}

void View::note_sticky(vp_status status, std::uint64_t offset, const char* message) {
  ++losses_;
  if (sticky_ != VP_OK) return;
  sticky_ = status;
  first_lost_ = offset;
  first_.say(message);
}

// With write(2): the thread that dies may hold any lock.
void View::abort_process(const char* message) const {
  char line[512];
  const int n = std::snprintf(line, sizeof line, "vrampool: %s: %s (on_loss = abort)\n",
                              segment_->record().name.c_str(), message);
  static_cast<void>(!::write(STDERR_FILENO, line, static_cast<std::size_t>(std::clamp(n, 0, 511))));
  std::abort();
}

LossNote View::lost(const wire::LossEventT& event) {
  const char* message = event.message.empty() ? "pages were lost" : event.message.c_str();
  if (!event.healed && on_loss_ == VP_ON_LOSS_ABORT) abort_process(message);
  LossNote note;
  if (!event.healed) note.status = event.status == VP_OK ? VP_LOST : static_cast<vp_status>(event.status);
  note.view = handle_;
  note.offset = event.offset;
  note.bytes = event.bytes;
  note.say(message);
  const std::lock_guard hold(mutex_);
  if (event.healed) {
    ++heals_;
  } else {
    daemon_pages_lost_ += (event.bytes + kPageBytes - 1) / kPageBytes;
    note_sticky(note.status, event.offset, message);
  }
  return note;
}

void View::status(vp_view_info& info) const {
  const std::lock_guard hold(mutex_);
  info.status = sticky_;
  info.first_lost = first_lost_;
  info.losses = losses_;
  info.pages_lost = daemon_pages_lost_;
  info.healed = sticky_ != VP_OK && heals_ >= losses_ ? 1 : 0;
  for (const Region& r : regions_) {
    info.lazy |= r.resident ? 0u : 1u;
    info.bytes += r.bytes;
    if (r.map) info.pages_lost += r.map->pages_poisoned();
  }
  std::memcpy(info.message, first_.message.data(), sizeof info.message);
}

bool View::attach_request(std::size_t index, bool reattach, wire::AttachViewT& request,
                          platform::AttachDescriptors& descriptors) const {
  const std::lock_guard hold(mutex_);
  const Region& r = regions_[index];
  if (!r.map || r.poisoned) return false;
  request.view = r.daemon_view;
  request.id = segment_->id();
  request.segment_offset = r.offset;
  request.bytes = r.bytes;
  request.client_base = reinterpret_cast<std::uintptr_t>(r.map->base());
  request.posix = r.map->kind() == platform::FaultSourceKind::posix;
  request.reattach = reattach;
  request.resident = r.resident;
  request.on_loss = static_cast<std::uint8_t>(on_loss_);
  if (!r.faults) return true;
  auto fds = r.map->attach_descriptors();
  if (fds) descriptors = std::move(*fds);
  return fds.ok();
}

bool View::poison(vp_status why, const char* message, LossNote& note) {
  if (on_loss_ == VP_ON_LOSS_WAIT) return false;
  const std::lock_guard hold(mutex_);
  bool changed = false;
  for (Region& r : regions_) {
    if (!r.map || !r.faults || r.poisoned) continue;
    if (on_loss_ == VP_ON_LOSS_ABORT) abort_process(message);
    // The error first: whoever then reads 0xFF finds it.
    note_sticky(why, r.offset, message);
    r.poisoned = static_cast<bool>(r.map->poison_here(0, r.map->bytes()));
    note.offset = r.offset;
    note.bytes = r.bytes;
    changed = true;
  }
  note.status = why;
  note.view = handle_;
  note.say(message);
  return changed;
}

std::uint64_t View::pages_poisoned() const {
  const std::lock_guard hold(mutex_);
  std::uint64_t n = 0;
  for (const Region& r : regions_) n += r.map ? r.map->pages_poisoned() : 0;
  return n;
}

std::vector<std::uint64_t> View::close() {
  const std::lock_guard hold(mutex_);
  std::vector<std::uint64_t> numbers;
  for (Region& r : regions_) {
    if (r.map) numbers.push_back(r.daemon_view);
    r.map.reset();
  }
  return numbers;
}

}  // namespace vrampool::client
