// Lives of the node, who local programs are, and the status board.
#include "service/control.h"

#include <pwd.h>
#include <unistd.h>

#include <boost/json/object.hpp>

#include "base/log.h"
#include "platform/clock.h"
#include "platform/fault_source.h"
#include "platform/shared_object.h"
#include "service/files.h"
#include "service/founding.h"

namespace vrampool::service {
namespace {

constexpr std::int64_t kBoardEveryMs = 250;
// Between the end of a life and the next: answers under way still go out.
constexpr std::int64_t kLifePauseMs = 100;
constexpr std::size_t kPrincipalsMax = 4096;

std::string login_name(std::uint32_t uid) {
  std::array<char, 4096> room{};
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwuid_r(uid, &entry, room.data(), room.size(), &found) == 0 && found) return found->pw_name;
  return fmt::format("uid-{}", uid);
}

}  // namespace

Control::Control(Loop& loop, Workers& files, Store& store, Config config, StartDataPlane start_data_plane)
    : loop_(loop),
      files_(files),
      store_(store),
      config_(std::move(config)),
      start_data_plane_(std::move(start_data_plane)),
      sessions_(loop, *this) {}

Control::~Control() {
  loop_.forget(timer_);
  sessions_.stop();
  node_.reset();
}

Status Control::start() {
  started_unix_ms_ = platform::unix_ms();
  if (config_.fault_source != "posix") fault_device_ = UniqueFd(platform::open_fault_device());
  VP_CHECK(make_directories(config_.socket_path.substr(0, config_.socket_path.rfind('/')), 0755));
  VP_CHECK(begin_life());
  VP_CHECK(resume());
  VP_CHECK(sessions_.listen(config_.socket_path));
  VP_TRY(board, Board::create(wire::board_path(config_.socket_path)));
  board_.emplace(std::move(board));
  tick();
  return {};
}

void Control::begin_stop() {
  stopping_ = true;
  sessions_.stop();
  if (node_) node_->jobs().cancel_all();
}

bool Control::quiet() const { return !node_ || node_->jobs().running() == 0; }

// ---- lives ----

Status Control::begin_life() {
  VP_TRY(birth, store_.begin_life(config_.memory_dir));
  birth_ = birth;
  return {};
}

Status Control::resume() {
  VP_TRY(key, read_pool_key(config_.state_dir));
  VP_TRY(state, store_.load());
  if (state.self.value == 0) {
    log::info("not in a pool: waiting for `vrampool init` or `vrampool join`");
    return {};
  }
  if (!key)
    return error(VP_NOT_FOUND, "{}/pool.key is missing: restore it, or remove the state directory and join again",
                 config_.state_dir);
  if (key->pool != state.pool)
    return error(VP_CORRUPT, "{}/pool.key belongs to pool {}, the registry to {}: restore the right one",
                 config_.state_dir, to_text(key->pool), to_text(state.pool));
  return start_node(std::move(state), *key);
}

Status Control::start_node(membership::DurableState state, const PoolKey& key) {
  VP_TRY(node, Node::start(NodeParts{loop_, files_, store_, config_, birth_, key, start_data_plane_, *this},
                           std::move(state)));
  node_ = std::move(node);
  return {};
}

void Control::life_ended(bool forgotten) {
  loop_.after(Duration::millis(kLifePauseMs), [this, forgotten] { next_life(forgotten); });
}

void Control::next_life(bool forgotten) {
  if (stopping_) return;
  sessions_.close_all("this node begins a new life");
  loop_.drop_tasks();
  node_.reset();
  Status next;
  if (forgotten) {
    next = store_.wipe();
    drop_memory();
    log::warn("this node left its pool: what it held is gone");
  }
  if (next) next = begin_life();
  if (next) next = resume();
  if (!next) log::error("this node cannot go on: {}", next.error().message);
}

// What the pool no longer knows is of no use to anybody.
void Control::drop_memory() {
  platform::ObjectStoreOptions options;
  options.directory = config_.memory_dir;
  options.require_memory_filesystem = false;
  auto objects = platform::ObjectStore::open(options);
  const auto removed = objects ? objects->cleanup() : Result<std::size_t>(objects.error());
  if (!removed) log::warn("what this node held cannot be freed: {}", removed.error().message);
}

void Control::tick() {
  board_->write(
      wire::BoardText{static_cast<std::uint32_t>(::getpid()), birth_.life, platform::now(), board_report(scene())});
  timer_ = loop_.after(Duration::millis(kBoardEveryMs), [this] { tick(); });
}

Scene Control::scene() const {
  return Scene{config_, node_.get(), store_, sessions_, birth_, started_unix_ms_, entering_};
}

std::string Control::status_json() { return text_of(node_report(scene())); }

// ---- programs ----

Result<Who> Control::who_is(const platform::PeerCredentials& peer) {
  if (!principals_.contains(peer.uid)) {
    if (principals_.size() >= kPrincipalsMax) principals_.clear();
    std::string name = login_name(peer.uid);
    if (const auto mapped = config_.principals.find(name); mapped != config_.principals.end()) name = mapped->second;
    principals_[peer.uid] = std::move(name);
  }
  return Who{principals_[peer.uid], peer.uid == 0 || peer.uid == ::geteuid()};
}

void Control::describe(wire::AttachedT& a, std::vector<UniqueFd>& descriptors) {
  a.member = node_ ? node_->self().member.value : 0;
  a.life = birth_.life.value;
  a.pool = node_ ? to_text(node_->machine().pool()) : "";
  a.fault_source = node_ ? node_->data().fault_source() : "";
  a.detection_ms = static_cast<std::uint32_t>(config_.detection_ms);
  a.fault_deadline_ms = static_cast<std::uint32_t>(config_.fault_deadline_ms);
  if (board_) descriptors.push_back(board_->reader());
  UniqueFd device(fault_device_ ? ::dup(fault_device_.get()) : -1);
  a.has_fault_device = static_cast<bool>(device) && a.fault_source.starts_with("userfaultfd");
  if (a.has_fault_device) descriptors.push_back(std::move(device));
}

Status Control::adopt_data(ClientNo client, UniqueFd socket, bool bulk) {
  if (!node_) return error(VP_NOT_FOUND, "this node is in no pool: run `vrampool init` or `vrampool join`");
  node_->data().adopt_data_socket(client, std::move(socket), bulk);
  return {};
}

// Its views and pins go with it; what it was creating is dropped everywhere.
void Control::session_ended(SessionPtr session) {
  if (!node_) return;
  node_->data().client_gone(session->client);
  for (const SegmentId id : session->creating) node_->abandon(id);
}

void Control::loss(ClientNo client, wire::LossEventT event) { sessions_.tell_loss(client, std::move(event)); }

Task<LocalAnswer> Control::handle(SessionPtr session, LocalBody request, std::vector<UniqueFd> descriptors) {
  if (auto* ask = request.AsAdmin()) co_return co_await admin(std::move(session), std::move(*ask));
  if (!node_)
    co_return answer_status(error(VP_NOT_FOUND, "this node is in no pool: run `vrampool init` or `vrampool join`"));
  co_return co_await handle_in_pool(std::move(session), std::move(request), std::move(descriptors));
}

LocalAnswer answer_status(const Status& status, std::string message) {
  return LocalAnswer{done_body(status, std::move(message)), {}};
}

LocalAnswer answer_json(const boost::json::object& document) {
  wire::JsonReplyT reply;
  reply.json = text_of(document);
  return answer_with(std::move(reply));
}

}  // namespace vrampool::service
