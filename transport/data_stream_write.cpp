// A DataStream's sending half: the bounded queue and how it leaves, gathered (plain) or record by record (TLS).
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "transport/data_stream.h"
#include "transport/wire_habits.h"

namespace vrampool::transport {
namespace {

constexpr std::size_t kGatherMax = 32;

}  // namespace

std::span<const std::byte> DataStream::Slot::head_rest() const {
  return std::span(head).first(head_bytes).subspan(std::min<std::size_t>(done, head_bytes));
}

std::span<const std::byte> DataStream::Slot::body_rest() const {
  return done <= head_bytes ? body : body.subspan(done - head_bytes);
}

bool DataStream::send(const Outgoing& message) {
  if (!enqueue(message)) return false;
  flush();
  return true;
}

bool DataStream::enqueue(const Outgoing& message) { return open() && put(message); }

bool DataStream::put(const Outgoing& message) {
  VP_ASSERT(message.side.size() <= kSideBytesMax);
  VP_ASSERT(message.body.size() == body_bytes_of(message.header));
  if (queue_size_ == queue_.size()) return false;
  Slot& s = slot(queue_size_++);
  wire::DataHeader header = message.header;
  header.payload_bytes = static_cast<std::uint32_t>(message.side.size() + message.body.size());
  const auto packed = wire::encode(header);
  std::memcpy(s.head.data(), packed.data(), packed.size());
  if (!message.side.empty()) std::memcpy(s.head.data() + packed.size(), message.side.data(), message.side.size());
  s.head_bytes = static_cast<std::uint32_t>(packed.size() + message.side.size());
  s.body = message.body;
  s.tag = message.tag;
  s.done = 0;
  queued_bytes_ += s.bytes();
  return true;
}

void DataStream::flush() {
  if (closed() || phase_ == Phase::connecting || phase_ == Phase::tls || writing_) return;
  writing_ = true;  // a handler that sends from on_released() only adds to the queue
  tls_ ? write_tls() : write_plain();
  writing_ = false;
}

// The head of the queue leaves it, before its owner hears of it: the owner may send from there.
void DataStream::pop_front(bool sent) {
  Slot& s = slot(0);
  const std::uint64_t tag = s.tag;
  queued_bytes_ -= s.bytes() - s.done;
  queue_head_ = (queue_head_ + 1) % queue_.size();
  --queue_size_;
  if (sent) ++stats_.messages_out;
  if (tag != 0) handler_.on_released(*this, tag, sent);
}

void DataStream::count_sent(std::size_t bytes) {
  stats_.bytes_out += bytes;
  while (bytes > 0) {
    Slot& s = slot(0);
    const std::size_t step = std::min<std::size_t>(bytes, s.bytes() - s.done);
    s.done += step;
    bytes -= step;
    queued_bytes_ -= step;
    if (s.done == s.bytes()) pop_front(true);
    if (closed()) return;
  }
}

void DataStream::write_plain() {
  while (queue_size_ > 0 && !closed()) {
    std::array<iovec, kGatherMax> places;
    std::size_t count = 0, total = 0;
    const auto add = [&](std::span<const std::byte> part) {
      if (part.empty()) return;
      places[count++] = {const_cast<std::byte*>(part.data()), part.size()};
      total += part.size();
    };
    for (std::size_t i = 0; i < queue_size_ && count + 2 <= kGatherMax; ++i) {
      add(slot(i).head_rest());
      add(slot(i).body_rest());
    }
    msghdr message{};
    message.msg_iov = places.data();
    message.msg_iovlen = static_cast<decltype(message.msg_iovlen)>(count);
    ++stats_.write_calls;
    const ssize_t n = ::sendmsg(fd_.get(), &message, kNoSignal);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS)) return;
    if (n < 0) return fail_io(errno, "cannot send to");
    count_sent(static_cast<std::size_t>(n));
    if (static_cast<std::size_t>(n) < total) return;
  }
}

void DataStream::write_tls() {
  tls_wants_write_ = false;
  while (queue_size_ > 0 && !closed()) {
    Slot& s = slot(0);
    const auto head = s.head_rest();
    const auto part = head.empty() ? s.body_rest() : head;
    const bool more = part.size() > kTlsRecordBytes || queue_size_ > 1 || (!head.empty() && !s.body.empty());
    ++stats_.write_calls;
    const auto moved = tls_->write(part, more);
    if (moved.outcome == TlsSession::Outcome::done) {
      count_sent(moved.bytes);
      continue;
    }
    if (moved.outcome == TlsSession::Outcome::want_write) tls_wants_write_ = true;
    if (moved.outcome == TlsSession::Outcome::closed || moved.outcome == TlsSession::Outcome::failed)
      close(tls_->last_error(options_.peer));
    return;
  }
}

}  // namespace vrampool::transport
