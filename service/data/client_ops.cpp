#include "service/data/client_ops.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/crc32c.h"
#include "platform/clock.h"
#include "service/data/checks.h"
#include "service/data/client_link.h"
#include "service/data/data_loop.h"

namespace vrampool::service::data {
namespace {

constexpr std::uint64_t kPage = kPageBytes;
constexpr unsigned kReadableByAll = 0004;

std::uint64_t page_floor(std::uint64_t n) { return n / kPage * kPage; }
std::uint64_t page_ceil(std::uint64_t n) { return (n + kPage - 1) / kPage * kPage; }

}  // namespace

ClientOps::~ClientOps() = default;

ClientOps::Op& ClientOps::start(ClientLink& link, const wire::DataHeader& h, Buffer buffer, std::uint64_t base) {
  if (idle_.empty()) {
    ops_.push_back(std::make_unique<Op>(*this));
    idle_.push_back(ops_.back().get());
  }
  Op& op = *idle_.back();
  idle_.pop_back();
  op.link = &link;
  op.ask = h;
  op.buffer = std::move(buffer);
  op.base = base;
  op.parts.clear();
  op.waiting = 0;
  op.deadline = platform::now() + loop_.node().options.fault_deadline;
  op.failure.reset();
  op.busy = true;
  return op;
}

Result<Placement*> ClientOps::placement_of(const ClientLink& link, const wire::DataHeader& h) {
  auto* segment = loop_.find(h.segment);
  if (segment == nullptr || !segment->record)
    return error(VP_STALE, "segment {} is not open here; open it first", to_text(h.segment));
  if ((segment->record->mode & kReadableByAll) == 0 && !loop_.allowed(link.client(), h.segment))
    return error(VP_DENIED, "segment {} is not open to this client; open it by name first", to_text(h.segment));
  if (h.length == 0 || h.offset > segment->record->bytes || h.length > segment->record->bytes - h.offset)
    return error(VP_INVALID, "{} bytes at {} are not all within segment {}", h.length, h.offset, to_text(h.segment));
  return &segment->placement;
}

// ---- reads ----

void ClientOps::read(ClientLink& link, const wire::DataHeader& h) {
  auto placement = placement_of(link, h);
  if (!placement) return link.refuse(h, placement.error());
  if (Piece* piece = loop_.find_piece(h.segment, h.offset, h.length);
      piece != nullptr && piece->state() != PieceState::creating) {
    const std::uint64_t at = h.offset - piece->segment_offset(), page = at / kPage;
    if (piece->whole(page, (at + h.length + kPage - 1) / kPage - page))
      return link.answer(h, wire::DataKind::data, piece->view(at, h.length), loop_.hold(loop_.share(*piece)));
  }
  Buffer buffer = loop_.buffers().take();
  if (!buffer) return link.refuse(h, error(VP_BUSY, "too many reads at once"));
  Op& op = start(link, h, std::move(buffer), page_floor(h.offset));
  if (loop_.from_cache &&
      loop_.from_cache(h.segment, h.offset, op.buffer.bytes().subspan(h.offset - op.base, h.length)))
    return end(op);
  const std::uint64_t stop = h.offset + h.length;
  for (std::uint64_t at = h.offset; at < stop && !op.failure;) {
    const auto& run = (*placement)->at(at);
    const std::uint64_t next = std::min(stop, run.offset + run.bytes);
    if (run.home != loop_.node().self().member)
      add_remote(op, run.home, page_floor(at), page_ceil(next) - page_floor(at));
    else if (auto s = read_local(op, at, next - at); !s)
      op.failure = s.error();
    at = next;
  }
  begin(op);
}

Status ClientOps::read_local(Op& op, std::uint64_t offset, std::uint64_t length) {
  Piece* piece = loop_.find_piece(op.ask.segment, offset, length);
  if (piece == nullptr)
    return error(VP_LOST, "segment {} should have a piece here at {}, but it is gone", to_text(op.ask.segment), offset);
  if (piece->state() == PieceState::creating)
    return error(VP_BUSY, "segment {} is still being written", to_text(op.ask.segment));
  piece->copy_out(offset - piece->segment_offset(), op.buffer.bytes().subspan(offset - op.base, length));
  return {};
}

// ---- writes ----

void ClientOps::write(ClientLink& link, const wire::DataHeader& h, Buffer& bytes) {
  if (auto known = placement_of(link, h); !known) return link.refuse(h, known.error());
  const std::uint64_t stop = h.offset + h.length;
  const Record record = loop_.find(h.segment)->record;
  const bool copies =
      std::any_of(record->pieces.begin(), record->pieces.end(), [](const auto& p) { return p && p->copy != 0; });
  if (Piece* piece = copies ? nullptr : loop_.find_piece(h.segment, h.offset, h.length)) {
    const Status s = write_local(*piece, h, h.offset, bytes.bytes().first(h.length));
    return s ? link.answer(h, wire::DataKind::write_ok) : link.refuse(h, s.error());
  }
  Op& op = start(link, h, std::move(bytes), h.offset);
  op.token = h.token;
  std::memset(op.buffer.bytes().data() + h.length, 0, page_ceil(h.length) - h.length);
  // Every copy gets the bytes.
  for (const auto& piece : record->pieces) {
    if (!piece) continue;
    const std::uint64_t from = std::max(h.offset, piece->offset), to = std::min(stop, piece->offset + piece->bytes);
    if (from < to && !op.failure) write_to(op, *piece, from, to);
  }
  begin(op);
}

void ClientOps::write_to(Op& op, const wire::PieceT& where, std::uint64_t from, std::uint64_t to) {
  if (MemberNo{where.node} == loop_.node().self().member) {
    Piece* piece = loop_.find_piece(op.ask.segment, from, to - from);
    const Status s =
        piece == nullptr
            ? Status(error(VP_NOT_FOUND, "segment {} has no piece here at {}", to_text(op.ask.segment), from))
            : write_local(*piece, op.ask, from, op.buffer.bytes().subspan(from - op.base, to - from));
    if (!s) op.failure = s.error();
  } else if (from % kPage != 0) {
    op.failure = error(VP_INVALID, "a write to another node starts on a page of {} bytes, not at {}", kPage, from);
  } else {
    add_remote(op, MemberNo{where.node}, from, page_ceil(to) - from);
  }
}

Status ClientOps::write_local(Piece& piece, const wire::DataHeader& h, std::uint64_t offset,
                              std::span<const std::byte> bytes) {
  const std::uint64_t at = offset - piece.segment_offset();
  if (at % kPage != 0 || bytes.size() % kPage != 0) return piece.write_part(h.token, at, bytes);
  std::array<std::uint32_t, kPagesPerMessageMax> crcs;
  const std::size_t pages = bytes.size() / kPage;
  for (std::size_t i = 0; i < pages; ++i) crcs[i] = crc32c(bytes.subspan(i * kPage, kPage));
  return piece.write_pages(loop_.node().self(), loop_.node().next_write(), h.token, at, bytes,
                           std::span(crcs).first(pages));
}

// ---- parts ----

void ClientOps::add_remote(Op& op, MemberNo home, std::uint64_t offset, std::uint64_t length) {
  while (length > 0) {
    const auto n = static_cast<std::uint32_t>(std::min<std::uint64_t>(length, kPagesPerMessageMax * kPage));
    if (op.parts.full()) {
      op.failure = error(VP_INVALID, "that range lies in too many pieces; ask for less at once");
      return;
    }
    op.parts.push_back({.offset = offset, .length = n, .home = home});
    offset += n;
    length -= n;
  }
}

void ClientOps::begin(Op& op) {
  if (op.failure) op.parts.clear();
  op.waiting = op.parts.size();
  const bool writing = op.ask.kind == wire::DataKind::write;
  for (std::size_t i = 0; i < op.parts.size(); ++i)
    op.parts[i].request = writing ? loop_.node().next_write() : loop_.next_read();
  for (std::size_t i = 0, n = op.parts.size(); i < n; ++i) ask(op, i);
  if (op.parts.empty()) end(op);
}

void ClientOps::ask(Op& op, std::size_t i) {
  Part& part = op.parts[i];
  part.again_at = {};
  if (op.failure || op.link == nullptr) return part_done(op, i);
  PeerLink* peer = loop_.alive(part.home) ? loop_.peer(part.home) : nullptr;
  if (peer == nullptr)
    return part_failed(op, i,
                       error(VP_LOST, "the bytes at {} of segment {} live on member {}, which is gone", part.offset,
                             to_text(op.ask.segment), part.home.value));
  Ask ask;
  ask.header.kind = op.ask.kind;
  ask.header.request = part.request;
  ask.header.segment = op.ask.segment;
  ask.header.offset = part.offset;
  ask.header.length = part.length;
  ask.asker = &op;
  ask.cookie = i;
  ask.deadline = op.deadline;
  std::array<std::uint32_t, kPagesPerMessageMax> crcs;
  if (op.ask.kind == wire::DataKind::write) {
    ask.header.token = op.token;
    ask.body = op.place(part);
    const std::size_t pages = part.length / kPage;
    for (std::size_t p = 0; p < pages; ++p) crcs[p] = crc32c(ask.body.subspan(p * kPage, kPage));
    ask.side = std::as_bytes(std::span(crcs)).first(pages * 4);
  }
  if (auto s = peer->ask(ask); !s) part_failed(op, i, s.error());
}

void ClientOps::later(Op& op, std::size_t i, Duration delay) {
  op.parts[i].again_at = platform::now() + delay;
  loop_.node().counters.retries.fetch_add(1, std::memory_order_relaxed);
  loop_.events().wake_at(op.parts[i].again_at);
}

void ClientOps::part_failed(Op& op, std::size_t i, const Error& why) {
  if (passes(why.code) && !op.failure && op.link != nullptr && platform::now() + kTryAgain < op.deadline)
    return later(op, i, kTryAgain);
  if (!op.failure) op.failure = why;
  part_done(op, i);
}

void ClientOps::part_done(Op& op, std::size_t i) {
  op.parts[i].done = true;
  if (--op.waiting == 0) end(op);
}

std::span<std::byte> ClientOps::Op::landing(std::uint64_t part) { return place(parts[part]); }

void ClientOps::Op::answered(std::uint64_t part, const transport::Incoming& in) {
  if (in.header.kind == wire::DataKind::failure) return owner.part_failed(*this, part, failure_of(in));
  if (in.header.kind != wire::DataKind::data) return owner.part_done(*this, part);
  std::array<std::uint32_t, kPagesPerMessageMax> crcs;
  const auto sound = check_crcs(in, crcs);
  if (sound && *sound == in.header.length / kPage) {
    owner.loop_.node().counters.pages_fetched.fetch_add(*sound, std::memory_order_relaxed);
    return owner.part_done(*this, part);
  }
  owner.loop_.node().counters.crc_errors.fetch_add(1, std::memory_order_relaxed);
  if (++parts[part].damaged < kDamagedMax) return owner.later(*this, part, {});
  owner.part_failed(*this, part,
                    error(VP_CORRUPT, "the bytes at {} of segment {} arrive damaged from member {}", in.header.offset,
                          to_text(ask.segment), parts[part].home.value));
}

void ClientOps::Op::unanswered(std::uint64_t part, const Error& why) { owner.part_failed(*this, part, why); }

void ClientOps::end(Op& op) {
  if (ClientLink* link = std::exchange(op.link, nullptr)) {
    if (op.failure)
      link->refuse(op.ask, *op.failure);
    else if (op.ask.kind == wire::DataKind::write)
      link->answer(op.ask, wire::DataKind::write_ok);
    else {
      const auto body = op.buffer.bytes().subspan(op.ask.offset - op.base, op.ask.length);
      link->answer(op.ask, wire::DataKind::data, body, loop_.hold(std::move(op.buffer)));
    }
  }
  op.buffer = {};
  op.busy = false;
  idle_.push_back(&op);
}

void ClientOps::forget(ClientLink& link) {
  for (auto& op : ops_)
    if (op->busy && op->link == &link) op->link = nullptr;
}

Instant ClientOps::tick(Instant now) {
  Instant next{std::numeric_limits<std::int64_t>::max()};
  for (std::size_t o = 0; o < ops_.size(); ++o) {
    Op& op = *ops_[o];
    for (std::size_t i = 0; op.busy && i < op.parts.size(); ++i) {
      const Instant when = op.parts[i].again_at;
      if (when.ns == 0 || op.parts[i].done) continue;
      if (when <= now) ask(op, i);
    }
    for (std::size_t i = 0; op.busy && i < op.parts.size(); ++i)
      if (const Instant when = op.parts[i].again_at; when.ns != 0 && !op.parts[i].done) next = std::min(next, when);
  }
  return next;
}

}  // namespace vrampool::service::data
