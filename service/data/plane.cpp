// DataPlane's front: commands from the control thread, spread over the loops and acknowledged when all have run them.
#include <algorithm>
#include <atomic>

#include "base/log.h"
#include "platform/fault_source.h"
#include "service/data/bulk.h"
#include "service/data/data_loop.h"
#include "service/data/engine.h"
#include "service/data/page_bench.h"
#include "service/data/task_threads.h"
#include "service/data_plane.h"
#include "transport/tcp/socket.h"

namespace vrampool::service::data {
namespace {

constexpr unsigned kTaskThreads = 2;
constexpr unsigned kMoversMax = 16;

class Plane final : public DataPlane {
 public:
  Plane(std::unique_ptr<Node> node, transport::tcp::Listener listener)
      : node_(std::move(node)), listener_(std::move(listener)), tasks_(std::make_unique<TaskThreads>(kTaskThreads)) {}
  ~Plane() override;
  Status begin();

  std::uint16_t data_port() const override { return listener_.port(); }
  const std::vector<PieceReport>& adopted() const override { return adopted_; }
  Figures figures() const override;
  void set_capacity(std::uint64_t bytes) override { node_->store.set_capacity(bytes); }
  std::string fault_source() const override { return fault_source_; }

  void set_members(const wire::ViewT& view, std::vector<Peer> peers) override;
  wire::Ticket issue_ticket(Sender from) override { return node_->tickets.issue(from); }

  void create_piece(SegmentId, const wire::PieceT&, std::uint64_t token, Done) override;
  void freeze_piece(PieceId, std::uint64_t token, DoneWith<Sha256>) override;
  void seal_piece(PieceId, Done) override;
  void free_piece(PieceId, Done) override;

  void open_record(Record) override;
  void close_record(SegmentId) override;

  void map(ClientNo client, const wire::MapSegmentT& ask, DoneWith<MappedView> done) override {
    on_engine([this, client, ask, done] { engine_->map(client, ask, done); });
  }
  void attach_view(ClientNo client, const wire::AttachViewT& ask, std::vector<UniqueFd> fds, Done done) override {
    auto kept = std::make_shared<std::vector<UniqueFd>>(std::move(fds));
    on_engine([this, client, ask, kept, done] { engine_->attach(client, ask, std::move(*kept), done); });
  }
  void unmap(ClientNo client, std::uint64_t view, Done done) override {
    on_engine([this, client, view, done] { engine_->unmap(client, view, done); });
  }
  void client_gone(ClientNo) override;
  void allow(ClientNo client, SegmentId id) override {
    everywhere([client, id](DataLoop& loop) { loop.allow(client, id); });
  }
  void adopt_data_socket(ClientNo, UniqueFd, bool bulk) override;

  void prefetch(const wire::PrefetchT& ask, Done done) override {
    on_engine([this, ask, done] { engine_->prefetch(ask, done); });
  }
  void pin(ClientNo client, const wire::PinRangeT& ask, Done done) override {
    on_engine([this, client, ask, done] { engine_->pin(client, ask, done); });
  }
  void range_status(const wire::RangeStatusT& ask, DoneWith<wire::RangeStatusReplyT> done) override {
    on_engine([this, ask, done] { engine_->range_status(ask, done); });
  }
  std::unique_ptr<BulkChannel> bulk_channel() override { return std::make_unique<Bulk>(*node_); }
  void bench_page_read(BenchAsk ask, DoneWith<BenchAnswer> done) override {
    on_engine([this, ask, done] { PageBench::start(engine_loop(), ask, done); });
  }

 private:
  DataLoop& engine_loop() const { return *node_->loops[0]; }
  void on_engine(std::function<void()> fn) { engine_loop().post(std::move(fn)); }
  // Runs `each` on every loop, then `then` on the last one.
  void everywhere(std::function<void(DataLoop&)> each, std::function<void()> then = {});

  std::unique_ptr<Node> node_;
  transport::tcp::Listener listener_;
  std::unique_ptr<TaskThreads> tasks_;
  std::unique_ptr<Engine> engine_;
  std::vector<PieceReport> adopted_;
  std::string fault_source_;
  unsigned next_mover_ = 0;
};

Status Plane::begin() {
  node_->store.adopt_all();
  const unsigned movers = std::clamp(node_->options.movers, 1u, kMoversMax);
  for (unsigned i = 0; i <= movers; ++i) {
    VP_TRY(loop, DataLoop::create(*node_, i));
    node_->loops.push_back(std::move(loop));
  }
  for (const auto& piece : node_->store.all()) {
    adopted_.push_back(piece->report());
    for (auto& loop : node_->loops) loop->add_piece(piece);
  }
  engine_ = std::make_unique<Engine>(*node_, engine_loop());
  engine_->adopt_caches();
  const auto probe = platform::probe_fault_source();
  fault_source_ = node_->options.force_posix_faults                      ? "posix (forced by configuration)"
                  : probe.kind == platform::FaultSourceKind::userfaultfd ? "userfaultfd"
                                                                         : "posix (" + probe.reason + ")";
  for (auto& loop : node_->loops) loop->start();
  DataLoop* acceptor = node_->loops[1].get();
  acceptor->post([this, acceptor] { acceptor->accept_peers(&listener_); });
  return {};
}

// Everything stands still before anything is taken apart; objects stay for the next life.
Plane::~Plane() {
  node_->living.reset();
  for (auto& loop : node_->loops) loop->stop();
  tasks_.reset();
  engine_.reset();
  for (auto& loop : node_->loops) loop->accept_peers(nullptr);
  node_->loops.clear();
}

void Plane::everywhere(std::function<void(DataLoop&)> each, std::function<void()> then) {
  struct Round {
    std::function<void(DataLoop&)> each;
    std::function<void()> then;
    std::atomic<std::size_t> left{0};
  };
  auto round = std::make_shared<Round>();
  round->each = std::move(each);
  round->then = std::move(then);
  round->left = node_->loops.size();
  for (auto& owned : node_->loops) {
    DataLoop* loop = owned.get();
    loop->post([round, loop] {
      round->each(*loop);
      if (round->left.fetch_sub(1, std::memory_order_acq_rel) == 1 && round->then) round->then();
    });
  }
}

Figures Plane::figures() const {
  const auto books = node_->store.books();
  const Counters& c = node_->counters;
  const auto get = [](const std::atomic<std::uint64_t>& v) { return v.load(std::memory_order_relaxed); };
  Figures f;
  f.capacity_bytes = books.capacity;
  f.used_bytes = books.booked;
  f.pieces = books.pieces;
  f.cache_bytes = get(c.cache_bytes);
  f.views = get(c.views);
  f.faults = get(c.faults);
  f.pages_fetched = get(c.pages_fetched);
  f.pages_served = get(c.pages_served);
  f.bytes_in = get(c.bytes_in);
  f.bytes_out = get(c.bytes_out);
  f.crc_errors = get(c.crc_errors);
  f.retries = get(c.retries);
  f.poisoned_pages = get(c.poisoned_pages);
  f.evicted_pages = get(c.evicted_pages);
  f.fault_p50_ns = c.fault_ns.quantile(0.5);
  f.fault_p99_ns = c.fault_ns.quantile(0.99);
  return f;
}

void Plane::set_members(const wire::ViewT& view, std::vector<Peer> peers) {
  auto v = std::make_shared<const wire::ViewT>(view);
  auto p = std::make_shared<const std::vector<Peer>>(std::move(peers));
  everywhere([this, v, p](DataLoop& loop) {
    loop.set_members(*v, *p);
    if (loop.index() == 0) engine_->members_changed();
  });
}

// ---- pieces ----

void Plane::create_piece(SegmentId segment, const wire::PieceT& piece, std::uint64_t token, Done done) {
  tasks_->run([this, segment, piece, token, done] {
    auto made = node_->store.create(segment, piece, token);
    if (!made) return reply(*node_, done, made.take_error());
    everywhere([piece = *made](DataLoop& loop) { loop.add_piece(piece); },
               [this, done] { reply(*node_, done, Status{}); });
  });
}

void Plane::freeze_piece(PieceId id, std::uint64_t token, DoneWith<Sha256> done) {
  tasks_->run([this, id, token, done] {
    const PiecePtr piece = node_->store.find(id);
    if (piece == nullptr)
      return reply<Sha256>(*node_, done, error(VP_NOT_FOUND, "there is no piece {} on this node", to_text(id)));
    if (auto s = piece->freeze(token); !s) return reply<Sha256>(*node_, done, s.take_error());
    reply<Sha256>(*node_, done, piece->digest());
  });
}

void Plane::seal_piece(PieceId id, Done done) {
  const PiecePtr piece = node_->store.find(id);
  reply(
      *node_, done,
      piece == nullptr ? Status(error(VP_NOT_FOUND, "there is no piece {} on this node", to_text(id))) : piece->seal());
}

void Plane::free_piece(PieceId id, Done done) {
  everywhere([id](DataLoop& loop) { loop.drop_piece(id); },
             [this, id, done] {
               tasks_->run([this, id, done] {
                 node_->store.remove(id);
                 reply(*node_, done, Status{});
               });
             });
}

// ---- segments and clients ----

void Plane::open_record(Record record) {
  everywhere([this, record](DataLoop& loop) {
    loop.open_record(record);
    if (loop.index() == 0) engine_->open_record(record);
  });
}

void Plane::close_record(SegmentId id) {
  everywhere([this, id](DataLoop& loop) {
    loop.close_record(id);
    if (loop.index() == 0) engine_->close_record(id);
  });
}

void Plane::client_gone(ClientNo client) {
  everywhere([this, client](DataLoop& loop) {
    loop.drop_client(client);
    if (loop.index() == 0) engine_->client_gone(client);
  });
}

void Plane::adopt_data_socket(ClientNo client, UniqueFd fd, bool bulk) {
  const std::size_t movers = node_->loops.size() - 1;
  DataLoop* loop = node_->loops[bulk ? 1 + next_mover_++ % movers : 0].get();
  auto kept = std::make_shared<UniqueFd>(std::move(fd));
  loop->post([loop, client, kept] { loop->adopt_client(client, std::move(*kept)); });
}

Status make_tls(Node& node) {
  if (node.options.pool_key.empty()) {
    if (node.options.data_tls) return error(VP_INVALID, "tls for data needs a pool key");
    return {};
  }
  const transport::PoolKey key{node.options.pool_key_id, node.options.pool_key};
  VP_TRY(client, transport::TlsContext::client(key));
  VP_TRY(server, transport::TlsContext::server({&key, 1}));
  node.tls_client = std::move(client);
  node.tls_server = std::move(server);
  return {};
}

Result<std::unique_ptr<DataPlane>> start_plane(DataPlaneOptions options) {
  VP_ASSERT(options.post && options.ask_ticket);
  VP_TRY(boot, platform::boot_id());
  VP_TRY(store, PieceStore::open(options, boot));
  VP_TRY(listener, transport::tcp::Listener::open(options.listen_address, options.data_port));
  auto node = std::make_unique<Node>(std::move(options), std::move(store));
  node->boot = boot;
  VP_CHECK(make_tls(*node));
  auto plane = std::make_unique<Plane>(std::move(node), std::move(listener));
  VP_CHECK(plane->begin());
  return std::unique_ptr<DataPlane>(std::move(plane));
}

}  // namespace
}  // namespace vrampool::service::data

namespace vrampool::service {

Result<std::unique_ptr<DataPlane>> DataPlane::start(DataPlaneOptions options) {
  return data::start_plane(std::move(options));
}

}  // namespace vrampool::service
