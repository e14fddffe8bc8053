#include "fake_daemon.h"

#include <poll.h>
#include <unistd.h>

#include <cstring>

#include "base/crc32c.h"
#include "platform/fault_source.h"

namespace vrampool::client::testing {

namespace {

constexpr Duration kSendDeadline = Duration::seconds(5);

template <class T>
T must(Result<T> r) {
  if (!r) std::fprintf(stderr, "fake daemon: %s\n", r.error().message.c_str());
  VP_ASSERT(r.ok());
  return std::move(*r);
}

platform::SharedObject object(const char* label, std::uint64_t bytes, platform::MapUse use) {
  auto o = must(platform::create_unnamed_object(label, bytes));
  VP_ASSERT(o.map(use).ok());
  return o;
}

}  // namespace

FakeSegment& FakePool::add(const std::string& name, std::uint64_t bytes, std::vector<wire::TensorT> tensors) {
  const std::lock_guard hold(mutex);
  auto s = std::make_unique<FakeSegment>();
  s->record.id = SegmentId{MemberNo{1}, Life{1}, next_segment++};
  s->record.name = name;
  s->record.state = wire::SegmentState::sealed;
  s->record.bytes = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  s->record.address = (1ull << 48) + (s->record.id.count << 40);
  s->record.format = "raw";
  for (auto& t : tensors) s->record.tensors.push_back(std::make_unique<wire::TensorT>(std::move(t)));
  s->bytes.resize(s->record.bytes);
  for (std::uint64_t i = 0; i < s->bytes.size(); ++i) s->bytes[i] = byte_at(i);
  s->piece = object("piece", s->record.bytes, platform::MapUse::sealed);
  std::memcpy(s->piece.memory().data(), s->bytes.data(), s->bytes.size());
  s->cache = object("cache", s->record.bytes, platform::MapUse::cache);
  s->valid.resize(s->record.bytes / kPageBytes);
  const SegmentId id = s->record.id;
  names[name] = id;
  return *(segments[id] = std::move(s));
}

FakeSegment* FakePool::find(const std::string& name) {
  const auto it = names.find(name);
  return it == names.end() ? nullptr : find(it->second);
}

FakeSegment* FakePool::find(const SegmentId& id) {
  const auto it = segments.find(id);
  return it == segments.end() || it->second->removed ? nullptr : it->second.get();
}

FakeDaemon::FakeDaemon(FakePool& pool, std::string socket_path) : pool_(pool), path_(std::move(socket_path)) {
  listener_ = must(platform::listen_unix(path_, 0600));
  bell_.emplace(must(platform::Doorbell::create()));
  thread_ = std::thread([this] { run(); });
}

FakeDaemon::~FakeDaemon() {
  stopping_ = true;
  bell_->ring();
  thread_.join();
  ::unlink(path_.c_str());
}

wire::LocalBodyUnion FakeDaemon::done(vp_status status, const std::string& message) {
  wire::DoneT d;
  d.status = static_cast<std::uint16_t>(status);
  d.message = message;
  return body_of(std::move(d));
}

void FakeDaemon::run() {
  while (!stopping_) {
    std::vector<pollfd> wait{{bell_->fd(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    for (const auto& c : controls_) wait.push_back({c.link ? c.link->fd() : -1, POLLIN, 0});
    for (const auto& d : data_) wait.push_back({d.fd.get(), POLLIN, 0});
    for (const auto& [number, v] : views_)
      wait.push_back({v.faults && !pool_.hold_faults ? v.faults->fd() : -1, POLLIN, 0});
    ::poll(wait.data(), wait.size(), 20);
    bell_->drain();
    if (stopping_) return;
    const std::lock_guard hold(pool_.mutex);
    accept_all();
    for (std::size_t i = 0; i < controls_.size(); ++i) {
      if (controls_[i].link) serve(i);
    }
    std::erase_if(data_, [this](Data& d) { return !serve_data(d); });
    if (pool_.hold_faults) continue;
    for (auto& [number, v] : views_) serve_faults(number, v);
  }
}

void FakeDaemon::accept_all() {
  for (auto fd = platform::accept_unix(listener_.get()); fd && *fd; fd = platform::accept_unix(listener_.get())) {
    controls_.push_back({std::make_unique<Link>(std::move(*fd)), 0, 0});
  }
}

void FakeDaemon::serve(std::size_t index) {
  for (;;) {
    Link& link = *controls_[index].link;
    auto ask = link.receive(Duration{});
    if (!ask && ask.error().code == VP_TIMEOUT) return;
    if (!ask) return controls_[index].link.reset();
    if (pool_.silent && ask->body.AsAttach() == nullptr) {
      ++pool_.swallowed;
      continue;
    }
    std::vector<int> descriptors;
    const bool data = ask->body.AsOpenData() != nullptr;
    auto reply = answer(index, *ask, descriptors);
    static_cast<void>(link.send(ask->call, std::move(reply), descriptors, kSendDeadline));
    kept_.clear();
    if (!data) continue;
    data_.push_back({link.take(), {}});
    return controls_[index].link.reset();
  }
}

wire::LocalBodyUnion FakeDaemon::answer(std::size_t index, Envelope& ask, std::vector<int>& descriptors) {
  if (ask.body.AsAttach() != nullptr) {
    ++pool_.attaches;
    wire::AttachedT a;
    a.version = 1;
    a.client = controls_[index].client = index + 1;
    a.session_secret = controls_[index].secret = 77;
    a.member = 1;
    a.pool = "fake";
    a.page_bytes = kPageBytes;
    a.fault_source = "userfaultfd";
    a.fault_deadline_ms = pool_.fault_deadline_ms;
    return body_of(std::move(a));
  }
  if (ask.body.AsOpenData() != nullptr) return done(VP_OK);
  if (const auto* open = ask.body.AsOpenSegment()) {
    const FakeSegment* s = open->name.empty() ? pool_.find(open->id) : pool_.find(open->name);
    if (s == nullptr) return done(VP_NOT_FOUND, "no segment " + open->name);
    wire::OpenedT o;
    o.record = std::make_unique<wire::RecordT>(s->record);
    return body_of(std::move(o));
  }
  if (const auto* m = ask.body.AsMapSegment()) return map(*m, descriptors);
  if (const auto* a = ask.body.AsAttachView()) return attach_view(index, *a, ask.descriptors);
  if (const auto* u = ask.body.AsUnmapView()) {
    views_.erase(u->view);
    ++pool_.unmaps;
    return done(VP_OK);
  }
  if (const auto* c = ask.body.AsCreateSegment()) return create(*c);
  if (const auto* s = ask.body.AsSealSegment()) {
    FakeSegment* segment = pool_.find(s->id);
    if (segment == nullptr) return done(VP_NOT_FOUND);
    ++pool_.seals;
    segment->record.state = wire::SegmentState::sealed;
    pool_.names[segment->record.name] = s->id;
    std::memcpy(segment->piece.memory().data(), segment->bytes.data(), segment->bytes.size());
    return done(VP_OK);
  }
  if (const auto* a = ask.body.AsAbortSegment()) {
    ++pool_.aborts;
    pool_.segments.erase(a->id);
    return done(VP_OK);
  }
  if (const auto* r = ask.body.AsRemoveSegment()) {
    FakeSegment* segment = pool_.find(r->name);
    if (segment == nullptr) return done(VP_NOT_FOUND, "no segment " + r->name);
    segment->removed = true;
    pool_.names.erase(r->name);
    return done(VP_OK);
  }
  if (ask.body.AsPinRange() != nullptr) {
    ++pool_.pins;
    return done(VP_OK);
  }
  if (ask.body.AsPrefetch() != nullptr) return done(VP_OK);
  if (const auto* r = ask.body.AsRangeStatus()) {
    wire::RangeStatusReplyT reply;
    reply.pages = reply.remote = (r->bytes + kPageBytes - 1) / kPageBytes;
    return body_of(std::move(reply));
  }
  if (const auto* a = ask.body.AsAdmin()) {
    wire::JsonReplyT j;
    j.json = "{\"verb\":\"" + a->verb + "\"}";
    return body_of(std::move(j));
  }
  return done(VP_UNSUPPORTED, "the fake daemon cannot do that");
}

wire::LocalBodyUnion FakeDaemon::map(const wire::MapSegmentT& ask, std::vector<int>& descriptors) {
  FakeSegment* s = pool_.find(ask.id);
  if (s == nullptr) return done(VP_STALE, "removed");
  const bool direct = pool_.direct || ask.resident;
  auto& object = direct ? s->piece : s->cache;
  wire::MappedT m;
  m.view = pool_.next_view++;
  auto part = std::make_unique<wire::ViewPartT>();
  part->kind = ask.resident ? wire::PartKind::resident : direct ? wire::PartKind::direct : wire::PartKind::cache;
  part->object_offset = ask.offset;
  part->bytes = ask.bytes;
  m.parts.push_back(std::move(part));
  kept_.push_back(must(object.read_only_descriptor()));
  descriptors.push_back(kept_.back().get());
  return body_of(std::move(m));
}

wire::LocalBodyUnion FakeDaemon::attach_view(std::size_t index, const wire::AttachViewT& ask,
                                             std::vector<UniqueFd>& descriptors) {
  if (pool_.refuse_views || pool_.find(ask.id) == nullptr) return done(VP_STALE, "the segment was removed");
  ++pool_.attached_views;
  if (ask.reattach) ++pool_.reattached_views;
  if (descriptors.empty()) return done(VP_OK);
  platform::AttachDescriptors fds;
  for (auto& fd : descriptors) fds.push_back(std::move(fd));
  const auto kind = ask.posix ? platform::FaultSourceKind::posix : platform::FaultSourceKind::userfaultfd;
  auto faults = platform::ViewFaults::attach(kind, std::move(fds), ask.client_base, ask.bytes);
  if (!faults) return done(VP_INVALID, faults.error().message);
  views_[ask.view] = {ask.id, ask.segment_offset, ask.bytes, std::move(*faults), index, ask.on_loss};
  return done(VP_OK);
}

wire::LocalBodyUnion FakeDaemon::create(const wire::CreateSegmentT& ask) {
  std::vector<wire::TensorT> tensors;
  for (const auto& t : ask.tensors) tensors.push_back(*t);
  const auto before = pool_.names.find(ask.name) == pool_.names.end() ? SegmentId{} : pool_.names[ask.name];
  FakeSegment& s = pool_.add(ask.name, ask.bytes, std::move(tensors));
  std::fill(s.bytes.begin(), s.bytes.end(), std::byte{0});
  if (before.is_nil())
    pool_.names.erase(ask.name);
  else
    pool_.names[ask.name] = before;
  s.record.state = wire::SegmentState::creating;
  s.record.create_token = 4711;
  wire::CreatedT c;
  c.record = std::make_unique<wire::RecordT>(s.record);
  return body_of(std::move(c));
}

// False when the connection is over.
bool FakeDaemon::serve_data(Data& d) {
  std::array<std::byte, 65536> room;
  platform::DescriptorList none;
  for (;;) {
    auto got = platform::receive_some(d.fd.get(), room, none);
    if (!got || got->closed) return false;
    if (got->would_block) break;
    d.in.insert(d.in.end(), room.begin(), room.begin() + static_cast<std::ptrdiff_t>(got->bytes));
  }
  while (d.in.size() >= wire::kDataHeaderBytes) {
    const auto header = must(wire::decode_data_header(
        std::span<const std::byte, wire::kDataHeaderBytes>(d.in.data(), wire::kDataHeaderBytes)));
    const std::size_t whole = wire::kDataHeaderBytes + header.payload_bytes;
    if (d.in.size() < whole) break;
    answer_data(d, header, std::span(d.in).subspan(wire::kDataHeaderBytes, header.payload_bytes));
    d.in.erase(d.in.begin(), d.in.begin() + static_cast<std::ptrdiff_t>(whole));
  }
  return true;
}

void FakeDaemon::answer_data(Data& d, const wire::DataHeader& h, std::span<const std::byte> payload) {
  (h.kind == wire::DataKind::write ? pool_.writes : pool_.reads)++;
  if (pool_.hold_reads) return;
  wire::DataHeader out = h;
  std::vector<std::byte> body;
  FakeSegment* s = pool_.find(h.segment);
  auto refuse = [&](vp_status status, std::string_view text) {
    out.kind = wire::DataKind::failure;
    out.status = static_cast<std::uint16_t>(status);
    out.length = 0;
    body.assign(reinterpret_cast<const std::byte*>(text.data()),
                reinterpret_cast<const std::byte*>(text.data() + text.size()));
  };
  if (pool_.busy_answers > 0) {
    --pool_.busy_answers;
    refuse(VP_BUSY, "busy");
  } else if (s == nullptr) {
    refuse(VP_STALE, "no such segment");
  } else if (h.kind == wire::DataKind::read && s->lost.count(h.offset / kPageBytes) != 0) {
    refuse(VP_LOST, "the node is gone");
  } else if (h.kind == wire::DataKind::read) {
    out.kind = wire::DataKind::data;
    body.assign(s->bytes.begin() + static_cast<std::ptrdiff_t>(h.offset),
                s->bytes.begin() + static_cast<std::ptrdiff_t>(h.offset + h.length));
  } else if (h.token != s->record.create_token) {
    refuse(VP_DENIED, "wrong token");
  } else {
    std::uint32_t crc = 0;
    std::memcpy(&crc, payload.data(), 4);
    const auto pages = payload.subspan(wire::crc_table_bytes(h.length));
    if (crc != crc32c(pages.first(std::min<std::size_t>(pages.size(), kPageBytes))))
      refuse(VP_CORRUPT, "bad crc");
    else
      std::memcpy(s->bytes.data() + h.offset, pages.data(), pages.size());
    if (out.kind != wire::DataKind::failure) {
      out.kind = wire::DataKind::write_ok;
      out.length = 0;
    }
  }
  out.payload_bytes = static_cast<std::uint32_t>(body.size());
  const auto head = wire::encode(out);
  static_cast<void>(platform::send_all(d.fd.get(), head, {}, kSendDeadline));
  static_cast<void>(platform::send_all(d.fd.get(), body, {}, kSendDeadline));
}

void FakeDaemon::serve_faults(std::uint64_t number, View& v) {
  if (!v.faults) return;
  std::array<platform::ViewEvent, 16> events;
  const std::size_t n = v.faults->read_events(events);
  for (std::size_t i = 0; i < n; ++i) {
    if (events[i].kind == platform::ViewEvent::Kind::fault) serve_page(number, v, events[i].offset);
  }
}

void FakeDaemon::serve_page(std::uint64_t number, View& v, std::uint64_t offset) {
  ++pool_.faults;
  FakeSegment* s = pool_.find(v.segment);
  if (s == nullptr) return;
  const std::uint64_t page = (v.offset + offset) / kPageBytes;
  auto at = s->cache.memory().subspan(page * kPageBytes, kPageBytes);
  const bool lost = s->lost.count(page) != 0;
  if (lost) {
    wire::LossEventT loss;
    loss.view = number;
    loss.id = v.segment;
    loss.offset = page * kPageBytes;
    loss.bytes = kPageBytes;
    loss.status = VP_LOST;
    loss.message = "the node that had it is gone";
    auto& link = controls_[v.control].link;
    if (link) static_cast<void>(link->send(0, body_of(std::move(loss)), {}, kSendDeadline));
    if (v.on_loss != 0) return;
    std::memset(at.data(), 0xff, kPageBytes);
  } else if (!s->valid[page]) {
    VP_ASSERT(s->cache.reserve(page * kPageBytes, kPageBytes).ok());
    std::memcpy(at.data(), s->bytes.data() + page * kPageBytes, kPageBytes);
  }
  s->valid[page] = true;
  static_cast<void>(v.faults->reveal(offset, kPageBytes, platform::PageAccess::read));
}

}  // namespace vrampool::client::testing
