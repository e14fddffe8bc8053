// Requests of a channel: cut, sent, answered, given up.
#include <poll.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/crc32c.h"
#include "client/channel.h"
#include "platform/clock.h"

namespace vrampool::client {

namespace {

// The next chunk ends at a multiple of kChunkBytes, so that it touches no more pages than a message may carry.
std::uint64_t chunk_length(const Move& move, std::uint64_t done) {
  const std::uint64_t at = move.offset + done;
  return std::min(move.bytes - done, kChunkBytes - at % kChunkBytes);
}

std::size_t chunks_of(const Move& move) {
  return static_cast<std::size_t>((move.offset % kChunkBytes + move.bytes + kChunkBytes - 1) / kChunkBytes);
}

using CrcTable = std::array<std::uint32_t, kPagesPerMessageMax>;

std::span<const std::byte> crc_table_of(std::span<const std::byte> pages, CrcTable& table) {
  std::size_t n = 0;
  for (; !pages.empty(); pages = pages.subspan(std::min(pages.size(), kPageBytes))) {
    table[n++] = crc32c(pages.first(std::min(pages.size(), kPageBytes)));
  }
  return std::as_bytes(std::span(table)).first(n * 4);
}

// Whole pages are checked against the table that came with them.
bool pages_hold(const transport::Incoming& in) {
  if (in.header.offset % kPageBytes != 0 || in.side.size() < in.body.size() / kPageBytes * 4) return true;
  for (std::size_t i = 0; (i + 1) * kPageBytes <= in.body.size(); ++i) {
    std::uint32_t wanted;
    std::memcpy(&wanted, in.side.data() + i * 4, 4);
    if (crc32c(in.body.subspan(i * kPageBytes, kPageBytes)) != wanted) return false;
  }
  return true;
}

}  // namespace

Status Channel::start(const std::shared_ptr<Transfer>& transfer, const Move& move) {
  Lock lock(mutex_);
  if (in_completion()) VP_CHECK(make_room(lock, *transfer, chunks_of(move)));
  transfer->submitting = true;
  transfer->deadline = platform::now() + transfer->patience;
  for (std::uint64_t done = 0; done < move.bytes && transfer->status == VP_OK;) {
    if (auto room = make_room(lock, *transfer, 1); !room) {
      abandon(*transfer, room.error().code, room.error().message.c_str());
      break;
    }
    const std::uint64_t length = chunk_length(move, done);
    submit(lock, transfer, move, done, length);
    done += length;
  }
  transfer->submitting = false;
  settle(transfer);
  changed_.notify_all();
  if (!in_completion()) run_completions(lock);
  return {};
}

Status Channel::make_room(Lock& lock, const Transfer& transfer, std::size_t requests) {
  if (stopping_) return error(VP_CANCELLED, "the session was closed");
  if (free_.size() >= requests) return {};
  if (in_completion()) return error(VP_BUSY, "{} requests are in flight; start this one later", slots_.size());
  const bool room = help(lock, transfer.deadline, [&] { return stopping_ || free_.size() >= requests; });
  if (stopping_) return error(VP_CANCELLED, "the session was closed");
  return room ? Status{} : error(VP_TIMEOUT, "the daemon did not answer in time");
}

void Channel::submit(Lock& lock, const std::shared_ptr<Transfer>& transfer, const Move& move, std::uint64_t done,
                     std::uint64_t length) {
  const std::size_t slot = free_.back();
  free_.pop_back();
  Request& r = slots_[slot];
  r.transfer = transfer;
  r.header = {};
  r.header.kind = move.from != nullptr ? wire::DataKind::write : wire::DataKind::read;
  r.header.request = RequestNo{++requests_ << 8 | slot};
  r.header.segment = move.segment;
  r.header.layout_version = move.layout_version;
  r.header.offset = move.offset + done;
  r.header.length = static_cast<std::uint32_t>(length);
  r.header.token = move.token;
  if (move.from != nullptr) r.from = {move.from + done, static_cast<std::size_t>(length)};
  if (move.into != nullptr) r.into = {move.into + done, static_cast<std::size_t>(length)};
  ++transfer->left;
  if (transfer->asynchronous) ++asynchronous_;
  if (usable()) send(slot);
  if (!in_completion()) flush(lock, transfer->deadline);
}

void Channel::send(std::size_t slot) {
  Request& r = slots_[slot];
  refused_ -= r.refused ? 1 : 0;
  r.refused = false;
  CrcTable table;
  transport::Outgoing out{r.header, {}, {}, 0};
  if (!r.from.empty()) {
    out.side = crc_table_of(r.from, table);
    out.body = r.from;
    out.tag = r.header.request.value;
    r.body_borrowed = true;
  }
  last_sent_ = slot;
  // The queue has room for the whole window; a refusal means a broken connection, and the next one sends it again.
  if (!stream_->send(out)) r.body_borrowed = false;
}

// With the same number: the daemon has forgotten the refused one.
void Channel::resend_refused(std::size_t most) {
  for (std::size_t i = 0; i < slots_.size() && most > 0 && usable(); ++i) {
    if (!slots_[i].refused) continue;
    send(i);
    --most;
  }
}

// Until the socket has taken everything. Receives too when nobody does: the daemon may be waiting for that.
void Channel::flush(Lock& lock, Instant until) {
  while (usable() && stream_->wants_write() && platform::now() < until) {
    if (!leading_) {
      leading_ = true;
      receive_once(lock, until);
      leading_ = false;
      changed_.notify_all();
      continue;
    }
    pollfd p{stream_->fd(), POLLOUT, 0};
    lock.unlock();
    ::poll(&p, 1, 100);
    lock.lock();
    if (usable()) stream_->on_writable();
  }
}

Channel::Request* Channel::request_of(RequestNo number) {
  const std::size_t slot = number.value & 0xff;
  if (slot >= slots_.size() || !slots_[slot].transfer || slots_[slot].header.request != number) return nullptr;
  return &slots_[slot];
}

std::span<std::byte> Channel::on_header(transport::DataStream&, const wire::DataHeader& h) {
  const Request* r = request_of(h.request);
  const bool fits = r != nullptr && h.kind == wire::DataKind::data && h.length == r->into.size();
  return fits ? r->into : std::span<std::byte>();
}

void Channel::on_message(transport::DataStream&, const transport::Incoming& in) {
  Request* r = request_of(in.header.request);
  if (r == nullptr) return;
  if (in.header.kind == wire::DataKind::failure && in.header.status == VP_BUSY) {
    refused_ += r->refused ? 0 : 1;
    r->refused = true;
    return;
  }
  if (in.header.kind == wire::DataKind::failure) {
    const auto status = in.header.status == VP_OK ? VP_FAILED : static_cast<vp_status>(in.header.status);
    return finish_request(*r, status, std::string(reinterpret_cast<const char*>(in.side.data()), in.side.size()));
  }
  if (in.header.kind == wire::DataKind::write_ok && !r->from.empty()) return finish_request(*r, VP_OK, {});
  if (in.header.kind != wire::DataKind::data || in.discarded || r->into.empty()) {
    return finish_request(*r, VP_CORRUPT, "the daemon answered with something else than what was asked");
  }
  if (!pages_hold(in)) return finish_request(*r, VP_CORRUPT, "a page does not match its checksum");
  finish_request(*r, VP_OK, {});
}

void Channel::on_released(transport::DataStream&, std::uint64_t tag, bool) {
  if (Request* r = request_of(RequestNo{tag})) r->body_borrowed = false;
}

void Channel::on_closed(transport::DataStream&, const Error&) {
  raw_fd_ = -1;
  on_down_();
}

void Channel::finish_request(Request& r, vp_status status, std::string message) {
  const std::shared_ptr<Transfer> t = std::move(r.transfer);
  refused_ -= r.refused ? 1 : 0;
  r = Request{};
  free_.push_back(static_cast<std::size_t>(&r - slots_.data()));
  if (t->asynchronous) --asynchronous_;
  --t->left;
  t->deadline = platform::now() + t->patience;
  if (status != VP_OK && t->status == VP_OK) {
    t->status = status;
    t->message = std::move(message);
  }
  settle(t);
}

void Channel::settle(const std::shared_ptr<Transfer>& t) {
  if (t->left > 0 || t->submitting || t->done) return;
  t->done = true;
  if (t->completion != nullptr) completed_.push_back(t);
}

// A body that the socket still borrows cannot be taken back: the connection goes, and the next one sends the others.
void Channel::abandon(Transfer& transfer, vp_status status, const char* message) {
  if (transfer.status == VP_OK) {
    transfer.status = status;
    transfer.message = message;
  }
  for (Request& r : slots_) {
    if (r.transfer.get() != &transfer) continue;
    if (usable()) stream_->divert(r.header.request);
    if (r.body_borrowed && usable()) stream_->close(error(VP_CANCELLED, "a write was given up"));
    finish_request(r, status, message);
  }
}

}  // namespace vrampool::client
