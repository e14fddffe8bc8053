// A pool in one process: several data planes over loopback, a control thread that knows all of them, and a client.
#pragma once

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/crc32c.h"
#include "doctest/doctest.h"
#include "platform/client_view.h"
#include "platform/clock.h"
#include "platform/fault_source.h"
#include "platform/unix_socket.h"
#include "service/data_plane.h"
#include "wire/data_header.h"

namespace vrampool::service::test {

inline constexpr auto kPatience = std::chrono::seconds(30);
inline constexpr std::uint64_t kPage = kPageBytes;

// Runs functions one after the other, as the control thread does.
class Control {
 public:
  Control() : thread_([this] { serve(); }) {}
  ~Control() {
    post([this] { ending_ = true; });
    thread_.join();
  }
  void post(std::function<void()> fn) {
    {
      std::lock_guard lock(mutex_);
      queue_.push_back(std::move(fn));
    }
    wake_.notify_one();
  }
  void call(const std::function<void()>& fn) {
    std::promise<void> done;
    post([&] {
      fn();
      done.set_value();
    });
    done.get_future().wait();
  }

 private:
  void serve() {
    while (!ending_) {
      std::function<void()> fn;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] { return !queue_.empty(); });
        fn = std::move(queue_.front());
        queue_.pop_front();
      }
      fn();
    }
  }
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;
  bool ending_ = false;
  std::thread thread_;
};

inline bool eventually(const std::function<bool()>& what) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < until) {
    if (what()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

// Waits for the answer of a call of the data plane.
template <class T>
Result<T> await(const std::function<void(std::function<void(Result<T>)>)>& call) {
  auto answer = std::make_shared<std::promise<Result<T>>>();
  call([answer](Result<T> r) { answer->set_value(std::move(r)); });
  auto future = answer->get_future();
  if (future.wait_for(kPatience) != std::future_status::ready)
    return error(VP_TIMEOUT, "the data plane did not answer");
  return future.get();
}

struct Part {
  int node = 0;  // index in the rig
  std::uint64_t bytes = 0;
  std::uint8_t copy = 0;
};

class Rig {
 public:
  explicit Rig(int count, std::function<void(DataPlaneOptions&)> adjust = {}) : adjust_(std::move(adjust)) {
    root_ = fmt::format("/dev/shm/vp-test-{}-{}", ::getpid(), next_rig()++);
    std::filesystem::create_directories(root_);
    nodes_.resize(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) start(i);
    introduce();
  }
  ~Rig() {
    for (auto& n : nodes_) n.plane.reset();
    control_.call([] {});
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }

  DataPlane& operator[](int i) { return *node(i).plane; }
  std::string directory(int i) const { return fmt::format("{}/{}", root_, i); }
  MemberNo member(int i) const { return MemberNo{static_cast<std::uint16_t>(i + 1)}; }
  Sender sender(int i) { return {member(i), node(i).life}; }
  Control& control() { return control_; }

  void start(int i, std::uint64_t incarnation = 1) {
    auto& n = node(i);
    n.life = Life{n.life.value + 1};
    DataPlaneOptions o;
    o.self = {member(i), n.life};
    o.incarnation = Incarnation{incarnation};
    o.memory_dir = directory(i);
    o.ledger_dir = directory(i);
    o.capacity_bytes = 1ull << 40;
    o.cache_bytes = 1ull << 30;
    o.movers = 2;
    o.fault_deadline = Duration::millis(2000);
    o.retry_every = Duration::millis(100);
    o.post = [this](std::function<void()> fn) { control_.post(std::move(fn)); };
    o.ask_ticket = [this, i](MemberNo to, DoneWith<wire::Ticket> done) {
      auto& target = node(to.value - 1);
      if (target.plane && !target.cut)
        done(target.plane->issue_ticket(sender(i)));
      else
        done(error(VP_UNREACHABLE, "member {} is down", to.value));
    };
    o.peer_failed = [](MemberNo, std::string) {};
    o.loss = [this](ClientNo, wire::LossEventT e) {
      std::lock_guard lock(mutex_);
      losses_.push_back(std::move(e));
    };
    if (adjust_) adjust_(o);
    auto started = DataPlane::start(std::move(o));
    REQUIRE_MESSAGE(started.ok(), started.error().message);
    control_.call([&] { n.plane = std::move(*started); });
  }
  // The daemon ends; its objects stay.
  void stop(int i) {
    control_.call([&] { node(i).plane.reset(); });
  }
  // Everybody gets a view of those that run and are not in `gone`.
  void introduce() {
    wire::ViewT view;
    view.epoch = Epoch{{1, MemberNo{1}}, ++epoch_};
    std::vector<Peer> peers;
    for (int i = 0; i < static_cast<int>(nodes_.size()); ++i) {
      if (!node(i).plane) continue;
      auto m = std::make_unique<wire::ViewMemberT>();
      m->member = member(i).value;
      m->life = node(i).life.value;
      m->incarnation = 1;
      m->state = wire::MemberState::alive;
      view.members.push_back(std::move(m));
      peers.push_back({member(i), node(i).life, "127.0.0.1", node(i).plane->data_port(), false});
    }
    for (auto& n : nodes_)
      if (n.plane) n.plane->set_members(view, peers);
  }

  // ---- segments ----
  Record record(std::uint64_t bytes, const std::vector<Part>& parts,
                wire::SegmentState state = wire::SegmentState::creating) {
    auto r = std::make_shared<wire::RecordT>();
    r->id = SegmentId{MemberNo{1}, Life{1}, ++segments_};
    r->bytes = bytes;
    r->state = state;
    r->kind = wire::SegmentKind::sealed;
    r->name = fmt::format("segment-{}", segments_);
    r->create_token = 0x5eed + segments_;
    r->layout_version = 1;
    std::uint64_t at = 0;
    for (const Part& p : parts) {
      auto piece = std::make_unique<wire::PieceT>();
      piece->ordinal = static_cast<std::uint32_t>(r->pieces.size());
      piece->node = member(p.node).value;
      piece->offset = p.copy == 0 ? at : at - p.bytes;  // a copy follows what it is a copy of
      piece->bytes = p.bytes;
      piece->copy = p.copy;
      at += p.copy == 0 ? p.bytes : 0;
      r->pieces.push_back(std::move(piece));
    }
    return r;
  }
  Status create(const Record& r) {
    for (const auto& p : r->pieces) {
      const Status s =
          await<void>([&](auto done) { (*this)[p->node - 1].create_piece(r->id, *p, r->create_token, done); });
      if (!s) return s;
    }
    open(r);
    return {};
  }
  void open(const Record& r) {
    for (auto& n : nodes_)
      if (n.plane) n.plane->open_record(r);
  }
  Record seal(const Record& r) {
    for (const auto& p : r->pieces) {
      const auto sha = await<Sha256>([&](auto done) {
        (*this)[p->node - 1].freeze_piece({r->id, p->ordinal}, r->create_token, done);
      });
      REQUIRE_MESSAGE(sha.ok(), sha.error().message);
    }
    for (const auto& p : r->pieces)
      REQUIRE(await<void>([&](auto done) { (*this)[p->node - 1].seal_piece({r->id, p->ordinal}, done); }).ok());
    auto sealed = std::make_shared<wire::RecordT>(*r);
    sealed->state = wire::SegmentState::sealed;
    open(sealed);
    return sealed;
  }
  // A sealed segment full of the pattern, written from node `from`.
  Record sealed_segment(const std::vector<Part>& parts, int from = 0) {
    std::uint64_t bytes = 0;
    for (const Part& p : parts) bytes += p.copy == 0 ? p.bytes : 0;
    const Record r = record(bytes, parts);
    const Status made = create(r);
    REQUIRE_MESSAGE(made.ok(), made.error().message);
    const auto content = pattern(0, bytes);
    auto bulk = (*this)[from].bulk_channel();
    const Status written = bulk->write(r, 0, content);
    REQUIRE_MESSAGE(written.ok(), written.error().message);
    const Status flushed = bulk->flush();
    REQUIRE_MESSAGE(flushed.ok(), flushed.error().message);
    return seal(r);
  }
  static std::byte pattern_at(std::uint64_t offset) {
    return static_cast<std::byte>((offset * 31 + offset / kPage * 7 + (offset >> 20) * 3 + 5) & 0xff);
  }
  static std::vector<std::byte> pattern(std::uint64_t offset, std::uint64_t bytes) {
    std::vector<std::byte> out(bytes);
    for (std::uint64_t i = 0; i < bytes; ++i) out[i] = pattern_at(offset + i);
    return out;
  }

  std::vector<wire::LossEventT> losses() {
    std::lock_guard lock(mutex_);
    return losses_;
  }

 private:
  struct Member {
    std::unique_ptr<DataPlane> plane;
    Life life{};
    bool cut = false;
  };
  static int& next_rig() {
    static int n = 0;
    return n;
  }
  Member& node(int i) { return nodes_[static_cast<std::size_t>(i)]; }

  std::function<void(DataPlaneOptions&)> adjust_;
  std::string root_;
  std::mutex mutex_;
  std::vector<wire::LossEventT> losses_;
  std::vector<Member> nodes_;
  Control control_;
  std::uint64_t epoch_ = 0;
  std::uint64_t segments_ = 0;
};

// A client's mapping in this process, whose faults the rig's engine serves.
class Mapping {
 public:
  Mapping(DataPlane& plane, const Record& record, platform::FaultSourceKind kind, std::uint64_t offset = 0,
          std::uint64_t bytes = 0, bool resident = false, std::uint8_t on_loss = 0)
      : kind_(kind),
        offset_(offset),
        bytes_(bytes == 0 ? record->bytes - offset : bytes),
        on_loss_(on_loss),
        id_(record->id),
        resident_(resident) {
    wire::MapSegmentT ask;
    ask.id = record->id;
    ask.offset = offset;
    ask.bytes = bytes;
    ask.resident = resident;
    ask.on_loss = on_loss;
    auto mapped = await<DataPlane::MappedView>([&](auto done) { plane.map(kClient, ask, done); });
    if (!mapped) {
      status_ = mapped.error();
      return;
    }
    number_ = mapped->view;
    parts_ = mapped->parts;
    auto view = platform::ClientView::create({.kind = kind, .bytes = bytes_});
    REQUIRE_MESSAGE(view.ok(), view.error().message);
    view_ = std::move(*view);
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const auto& p = parts_[i];
      const int fd = mapped->descriptors[i].get();
      const Status s = p.kind == wire::PartKind::cache ? view_->map_cache(p.view_offset, fd, p.object_offset, p.bytes)
                                                       : view_->map_direct(p.view_offset, fd, p.object_offset, p.bytes);
      REQUIRE_MESSAGE(s.ok(), s.error().message);
    }
    status_ = attach(plane, false);
  }

  Status attach(DataPlane& plane, bool again) {
    auto fds = view_->attach_descriptors();
    REQUIRE(fds.ok());
    std::vector<UniqueFd> given;
    for (auto& fd : *fds) given.push_back(std::move(fd));
    wire::AttachViewT ask;
    ask.view = number_;
    ask.id = id_;
    ask.segment_offset = offset_;
    ask.bytes = bytes_;
    ask.client_base = reinterpret_cast<std::uint64_t>(view_->base());
    ask.posix = kind_ == platform::FaultSourceKind::posix;
    ask.reattach = again;
    ask.resident = resident_;
    ask.on_loss = on_loss_;
    auto kept = std::make_shared<std::vector<UniqueFd>>(std::move(given));
    return await<void>([&](auto done) { plane.attach_view(kClient, ask, std::move(*kept), done); });
  }
  const Status& status() const { return status_; }
  std::uint64_t number() const { return number_; }
  const std::vector<wire::ViewPartT>& parts() const { return parts_; }
  std::span<const std::byte> bytes() const { return {view_->base(), bytes_}; }
  // Touches every page and counts those that do not hold the pattern.
  std::uint64_t wrong_pages() const {
    std::uint64_t wrong = 0;
    for (std::uint64_t p = 0; p < bytes_ / kPage; ++p) {
      bool good = true;
      for (std::uint64_t i = 0; i < kPage; i += 97)
        good &= bytes()[p * kPage + i] == Rig::pattern_at(offset_ + p * kPage + i);
      wrong += good ? 0 : 1;
    }
    return wrong;
  }
  static constexpr ClientNo kClient{77};

 private:
  platform::FaultSourceKind kind_;
  std::uint64_t offset_, bytes_;
  std::uint8_t on_loss_;
  SegmentId id_;
  bool resident_;
  Status status_;
  std::uint64_t number_ = 0;
  std::vector<wire::ViewPartT> parts_;
  std::unique_ptr<platform::ClientView> view_;
};

// The fault sources that this machine can have.
inline std::vector<platform::FaultSourceKind> sources() {
  std::vector<platform::FaultSourceKind> out{platform::FaultSourceKind::posix};
  if (platform::probe_fault_source().kind == platform::FaultSourceKind::userfaultfd)
    out.push_back(platform::FaultSourceKind::userfaultfd);
  return out;
}

// A client's data channel, used blocking.
class Channel {
 public:
  Channel(DataPlane& plane, bool bulk) {
    auto pair = platform::socket_pair();
    REQUIRE(pair.ok());
    fd_ = std::move(pair->first);
    plane.adopt_data_socket(Mapping::kClient, std::move(pair->second), bulk);
  }
  struct Answer {
    wire::DataHeader header;
    std::vector<std::byte> payload;
  };
  Answer call(wire::DataHeader h, std::span<const std::byte> body = {}) {
    h.request = RequestNo{++request_};
    h.payload_bytes = static_cast<std::uint32_t>(body.size());
    const auto head = wire::encode(h);
    REQUIRE(platform::send_all(fd_.get(), head, {}, Duration::seconds(20)).ok());
    if (!body.empty()) REQUIRE(platform::send_all(fd_.get(), body, {}, Duration::seconds(20)).ok());
    platform::DescriptorList none;
    wire::DataHeaderBytes bytes;
    REQUIRE(platform::receive_all(fd_.get(), bytes, none, Duration::seconds(20)).ok());
    const auto decoded = wire::decode_data_header(bytes);
    REQUIRE(decoded.ok());
    Answer a{*decoded, std::vector<std::byte>(decoded->payload_bytes)};
    if (!a.payload.empty()) REQUIRE(platform::receive_all(fd_.get(), a.payload, none, Duration::seconds(20)).ok());
    CHECK(a.header.request == h.request);
    return a;
  }
  Answer read(SegmentId id, std::uint64_t offset, std::uint32_t length) {
    wire::DataHeader h;
    h.kind = wire::DataKind::read;
    h.segment = id;
    h.offset = offset;
    h.length = length;
    return call(h);
  }
  Answer write(SegmentId id, std::uint64_t token, std::uint64_t offset, std::span<const std::byte> bytes) {
    wire::DataHeader h;
    h.kind = wire::DataKind::write;
    h.segment = id;
    h.token = token;
    h.offset = offset;
    h.length = static_cast<std::uint32_t>(bytes.size());
    return call(h, bytes);
  }

 private:
  UniqueFd fd_;
  std::uint64_t request_ = 0;
};

}  // namespace vrampool::service::test
