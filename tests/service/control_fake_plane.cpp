// The fake data plane.
#include "control_fake_plane.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "service/sha256.h"

namespace vrampool::service {
namespace {

class FakeBulk final : public BulkChannel {
 public:
  explicit FakeBulk(Medium& m) : medium_(m) {}
  Status write(const Record& r, std::uint64_t offset, std::span<const std::byte> bytes) override {
    if (offset % kPageBytes != 0 || bytes.size() % kPageBytes != 0) return error(VP_INVALID, "no whole pages");
    std::unique_lock lock(medium_.mutex);
    ++medium_.writes_held;
    medium_.changed.notify_all();
    medium_.changed.wait(lock, [this] { return !medium_.hold_writes || cancelled_; });
    --medium_.writes_held;
    if (cancelled_) return error(VP_CANCELLED, "cancelled");
    return each(r, offset, bytes.size(),
                [&](Medium::Piece& p, std::uint64_t in_piece, std::uint64_t done, std::size_t n) -> Status {
                  if (p.state != PieceState::creating || p.token != r->create_token)
                    return error(VP_DENIED, "frozen, or a wrong token");
                  std::memcpy(p.bytes.data() + in_piece, bytes.data() + done, n);
                  return {};
                });
  }
  Status flush() override { return {}; }
  Status read(const Record& r, std::uint64_t offset, std::span<std::byte> bytes) override {
    const std::lock_guard lock(medium_.mutex);
    return each(r, offset, bytes.size(),
                [&](Medium::Piece& p, std::uint64_t in_piece, std::uint64_t done, std::size_t n) -> Status {
                  std::memcpy(bytes.data() + done, p.bytes.data() + in_piece, n);
                  return {};
                });
  }
  void cancel() override {
    const std::lock_guard lock(medium_.mutex);
    cancelled_ = true;
    medium_.changed.notify_all();
  }

 private:
  template <class F>
  Status each(const Record& r, std::uint64_t offset, std::uint64_t bytes, F f) {
    for (std::uint64_t done = 0; done < bytes;) {
      const auto piece = std::find_if(r->pieces.begin(), r->pieces.end(), [&](const auto& p) {
        return p->offset <= offset + done && offset + done < p->offset + p->bytes;
      });
      if (piece == r->pieces.end()) return error(VP_INVALID, "beyond the segment");
      auto& pieces = medium_.nodes[MemberNo{(*piece)->node}];
      const auto at = pieces.find({r->id, (*piece)->ordinal});
      if (at == pieces.end()) return error(VP_LOST, "piece {} is lost", (*piece)->ordinal);
      const std::uint64_t in_piece = offset + done - (*piece)->offset;
      const auto n = static_cast<std::size_t>(std::min(bytes - done, (*piece)->bytes - in_piece));
      VP_CHECK(f(at->second, in_piece, done, n));
      done += n;
    }
    return {};
  }
  Medium& medium_;
  bool cancelled_ = false;
};

class FakePlane final : public DataPlane {
 public:
  FakePlane(Medium& m, DataPlaneOptions o) : medium_(m), options_(std::move(o)) {
    const std::lock_guard lock(m.mutex);
    for (const auto& [id, p] : m.nodes[options_.self.member])
      adopted_.push_back({id, p.state, p.offset, p.bytes.size(), p.token, p.incarnation, p.bytes.size() / kPageBytes});
  }
  std::uint16_t data_port() const override { return 1; }
  const std::vector<PieceReport>& adopted() const override { return adopted_; }
  Figures figures() const override { return {}; }
  void set_capacity(std::uint64_t) override {}
  std::string fault_source() const override { return "posix (a test)"; }
  void set_members(const wire::ViewT&, std::vector<Peer>) override {}
  wire::Ticket issue_ticket(Sender) override { return {}; }

  void create_piece(SegmentId s, const wire::PieceT& piece, std::uint64_t token, Done done) override {
    const std::lock_guard lock(medium_.mutex);
    mine()[{s, piece.ordinal}] = {std::vector<std::byte>(piece.bytes), piece.offset, token, PieceState::creating,
                                  options_.incarnation};
    answer(done, {});
  }
  void freeze_piece(PieceId id, std::uint64_t token, DoneWith<Sha256> done) override {
    const std::lock_guard lock(medium_.mutex);
    const auto at = mine().find(id);
    if (at == mine().end() || at->second.token != token)
      return options_.post([done] { done(error(VP_NOT_FOUND, "no such piece")); });
    at->second.state = PieceState::frozen;
    Sha256Stream hash;
    hash.add(at->second.bytes);
    options_.post([done, sha = hash.end()] { done(sha); });
  }
  void seal_piece(PieceId id, Done done) override {
    const std::lock_guard lock(medium_.mutex);
    const auto at = mine().find(id);
    if (at != mine().end()) at->second.state = PieceState::sealed;
    answer(done, at == mine().end() ? Status(error(VP_NOT_FOUND, "no such piece")) : Status());
  }
  void free_piece(PieceId id, Done done) override {
    const std::lock_guard lock(medium_.mutex);
    mine().erase(id);
    answer(done, {});
  }
  void open_record(Record) override {}
  void close_record(SegmentId) override {}
  void map(ClientNo, const wire::MapSegmentT&, DoneWith<MappedView> done) override {
    options_.post([done] {
      MappedView view;
      view.view = 1;
      done(std::move(view));
    });
  }
  void attach_view(ClientNo, const wire::AttachViewT&, std::vector<UniqueFd>, Done done) override { answer(done, {}); }
  void unmap(ClientNo, std::uint64_t, Done done) override { answer(done, {}); }
  void client_gone(ClientNo) override {
    const std::lock_guard lock(medium_.mutex);
    ++medium_.clients_gone;
  }
  void adopt_data_socket(ClientNo, UniqueFd, bool) override {}
  void prefetch(const wire::PrefetchT&, Done done) override { answer(done, {}); }
  void pin(ClientNo, const wire::PinRangeT&, Done done) override { answer(done, {}); }
  void range_status(const wire::RangeStatusT&, DoneWith<wire::RangeStatusReplyT> done) override {
    options_.post([done] { done(wire::RangeStatusReplyT{}); });
  }
  std::unique_ptr<BulkChannel> bulk_channel() override { return std::make_unique<FakeBulk>(medium_); }
  void bench_page_read(BenchAsk, DoneWith<BenchAnswer> done) override {
    options_.post([done] { done(BenchAnswer{{1, 2, 3}, 4}); });
  }

 private:
  std::map<PieceId, Medium::Piece>& mine() { return medium_.nodes[options_.self.member]; }
  void answer(Done done, Status s) {
    options_.post([done, s] { done(s); });
  }
  Medium& medium_;
  DataPlaneOptions options_;
  std::vector<PieceReport> adopted_;
};

}  // namespace

std::size_t Medium::pieces() {
  const std::lock_guard lock(mutex);
  std::size_t n = 0;
  for (const auto& [node, all] : nodes) n += all.size();
  return n;
}

void Medium::hold(bool on) {
  const std::lock_guard lock(mutex);
  hold_writes = on;
  changed.notify_all();
}

StartDataPlane Medium::starter() {
  return [this](DataPlaneOptions o) -> Result<std::unique_ptr<DataPlane>> {
    return std::unique_ptr<DataPlane>(std::make_unique<FakePlane>(*this, std::move(o)));
  };
}

}  // namespace vrampool::service
