#include "client/segment.h"

#include <algorithm>
#include <cstring>

#include "client/session.h"

namespace vrampool::client {

Segment::Segment(std::shared_ptr<Session> session, wire::RecordT record)
    : session_(std::move(session)), record_(std::move(record)), state_(record_.state) {
  by_name_.reserve(record_.tensors.size());
  for (std::size_t i = 0; i < record_.tensors.size(); ++i) {
    by_name_.emplace(record_.tensors[i]->name, static_cast<std::uint32_t>(i));
  }
}

std::int64_t Segment::tensor_index(std::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? -1 : static_cast<std::int64_t>(it->second);
}

Status Segment::check_range(std::uint64_t offset, std::uint64_t bytes) const {
  if (offset <= record_.bytes && bytes <= record_.bytes - offset) return {};
  return error(VP_INVALID, "[{}, +{}) is not inside {}, which has {} bytes", offset, bytes, record_.name,
               record_.bytes);
}

Status Segment::check_writable() const {
  if (state() == wire::SegmentState::creating) return {};
  return error(VP_DENIED, "{} is sealed and never changes: create another to write", record_.name);
}

// Whole pages leave at once, the rest is gathered.
Status Segment::write(std::uint64_t offset, const std::byte* from, std::uint64_t bytes) {
  VP_CHECK(check_writable());
  VP_CHECK(check_range(offset, bytes));
  const std::uint64_t head = std::min(bytes, (kPageBytes - offset % kPageBytes) % kPageBytes);
  const std::uint64_t whole = (bytes - head) / kPageBytes * kPageBytes;
  if (head > 0) VP_CHECK(write_part(offset, from, head));
  if (whole > 0) VP_CHECK(session_->write_pages(*this, offset + head, from + head, whole));
  if (head + whole < bytes) return write_part(offset + head + whole, from + head + whole, bytes - head - whole);
  return {};
}

void Segment::note_whole_pages(std::uint64_t offset, std::uint64_t bytes) {
  const std::lock_guard hold(mutex_);
  if (sent_.empty()) sent_.resize(record_.bytes / kPageBytes);
  for (std::uint64_t p = offset / kPageBytes; p < (offset + bytes) / kPageBytes; ++p) {
    sent_[p] = true;
    partial_.erase(p);
  }
}

Result<Segment::PartialPage*> Segment::partial_page(std::uint64_t page) {
  if (was_sent(page)) {
    return error(VP_INVALID, "page {} of {} was written already: write it again as a whole", page, record_.name);
  }
  if (const auto it = partial_.find(page); it != partial_.end()) return &it->second;
  if (partial_.size() == kPartialPagesMax) {
    return error(VP_BUSY, "{} pages of {} are written in part: complete some first", partial_.size(), record_.name);
  }
  PartialPage& p = partial_[page];
  p.bytes.resize(kPageBytes);
  p.written.resize(kPageBytes);
  return &p;
}

// [offset, +bytes) lies within one page.
Status Segment::write_part(std::uint64_t offset, const std::byte* from, std::uint64_t bytes) {
  const std::uint64_t page = offset / kPageBytes;
  std::vector<std::byte> complete;
  {
    const std::lock_guard hold(mutex_);
    VP_TRY(p, partial_page(page));
    std::memcpy(p->bytes.data() + offset % kPageBytes, from, bytes);
    for (std::uint64_t i = offset % kPageBytes, n = bytes; n > 0; ++i, --n) {
      if (!p->written[i]) --p->missing;
      p->written[i] = true;
    }
    if (p->missing > 0) return {};
    complete = std::move(p->bytes);
    partial_.erase(page);
  }
  return session_->write_pages(*this, page * kPageBytes, complete.data(), kPageBytes);
}

Status Segment::flush_partial_pages() {
  std::map<std::uint64_t, PartialPage> rest;
  {
    const std::lock_guard hold(mutex_);
    rest.swap(partial_);
  }
  for (const auto& [page, p] : rest) {
    VP_CHECK(session_->write_pages(*this, page * kPageBytes, p.bytes.data(), kPageBytes));
  }
  return {};
}

Status Segment::add_pin(PinnedRange range) {
  const std::lock_guard hold(mutex_);
  if (pins_.size() == kPinsPerSegmentMax) {
    return error(VP_NO_SPACE, "{} ranges of {} are pinned, the most there can be", pins_.size(), record_.name);
  }
  pins_.push_back(range);
  return {};
}

void Segment::remove_pin(PinnedRange range) {
  const std::lock_guard hold(mutex_);
  if (const auto it = std::find(pins_.begin(), pins_.end(), range); it != pins_.end()) pins_.erase(it);
}

std::vector<PinnedRange> Segment::pins() const {
  const std::lock_guard hold(mutex_);
  return pins_;
}

}  // namespace vrampool::client
