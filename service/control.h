// Everything that lives on the control thread of one daemon: the sessions of local programs, and, once there is a pool,
// this node in it.
#pragma once

#include <deque>
#include <memory>
#include <optional>

#include "service/board.h"
#include "service/node.h"
#include "service/report.h"
#include "service/sessions.h"

namespace vrampool::service {

// Threads: control thread.
class Control final : private SessionsOwner, private NodeOwner {
 public:
  Control(Loop& loop, Workers& files, Store& store, Config config, StartDataPlane start_data_plane);
  ~Control() override;

  // Opens socket and board, and takes up membership if this node has one. Blocking: fsyncs.
  Status start();
  // No new work; jobs are cancelled. True once nothing of it runs any more.
  void begin_stop();
  bool quiet() const;

  const Config& config() const { return config_; }
  std::uint16_t control_port() const { return config_.control_port; }
  std::uint16_t data_port() const { return node_ ? node_->data().data_port() : 0; }
  Node* node() { return node_.get(); }
  Birth birth() const { return birth_; }

 private:
  using SessionPtr = std::shared_ptr<Session>;

  // ---- lives ----
  Status begin_life();
  Status start_node(membership::DurableState state, const PoolKey& key);
  Status resume();
  void next_life(bool forgotten);
  void drop_memory();
  void tick();
  Scene scene() const;

  // SessionsOwner
  Task<LocalAnswer> handle(SessionPtr session, LocalBody request, std::vector<UniqueFd> descriptors) override;
  void describe(wire::AttachedT& attached, std::vector<UniqueFd>& descriptors) override;
  Status adopt_data(ClientNo client, UniqueFd socket, bool bulk) override;
  void session_ended(SessionPtr session) override;
  Result<Who> who_is(const platform::PeerCredentials& peer) override;
  // NodeOwner
  void loss(ClientNo client, wire::LossEventT event) override;
  void life_ended(bool forgotten) override;
  std::string status_json() override;

  // ---- segments and views: control_segments.cpp ----
  Task<LocalAnswer> handle_in_pool(SessionPtr session, LocalBody request, std::vector<UniqueFd> descriptors);
  Task<LocalAnswer> handle_segments(SessionPtr session, LocalBody request);
  LocalAnswer open_segment(const Session& session, const wire::OpenSegmentT& ask);
  Task<LocalAnswer> map(SessionPtr session, wire::MapSegmentT ask);
  Task<LocalAnswer> attach_view(SessionPtr session, wire::AttachViewT ask, std::vector<UniqueFd> descriptors);
  Task<LocalAnswer> unmap(SessionPtr session, std::uint64_t view);
  Task<LocalAnswer> prefetch(SessionPtr session, wire::PrefetchT ask);
  Task<LocalAnswer> pin(SessionPtr session, wire::PinRangeT ask);
  Task<LocalAnswer> range_status(SessionPtr session, wire::RangeStatusT ask);
  Task<LocalAnswer> create(SessionPtr session, wire::CreateSegmentT ask);
  Task<LocalAnswer> seal(SessionPtr session, SegmentId id);
  Task<LocalAnswer> abort(SessionPtr session, SegmentId id);
  Task<LocalAnswer> remove(SessionPtr session, wire::RemoveSegmentT ask);
  // ---- jobs: control_jobs.cpp ----
  Task<LocalAnswer> handle_jobs(SessionPtr session, LocalBody request);
  Task<LocalAnswer> query_job(SessionPtr session, wire::JobQueryT ask);

  // ---- operators: control_admin.cpp ----
  Task<LocalAnswer> admin(SessionPtr session, wire::AdminT ask);
  Task<LocalAnswer> init(SessionPtr session);
  Task<LocalAnswer> join(wire::AdminT ask);
  Task<LocalAnswer> enter(membership::DurableState state, PoolKey key, const char* verb);
  LocalAnswer invite();
  Task<LocalAnswer> leave(bool force);
  Task<LocalAnswer> forget(std::string name);
  Task<LocalAnswer> promote(std::string name, bool force);
  LocalAnswer donate(const std::string& size);
  Task<LocalAnswer> show(wire::AdminT ask, Who who);
  Task<LocalAnswer> bench(wire::AdminT ask);
  Task<Heard> hear_members();
  std::optional<MemberNo> member_named(const std::string& name) const;

  Loop& loop_;
  Workers& files_;
  Store& store_;
  Config config_;
  StartDataPlane start_data_plane_;
  Birth birth_{};
  std::int64_t started_unix_ms_ = 0;
  std::optional<Board> board_;
  UniqueFd fault_device_;
  std::map<std::uint32_t, std::string> principals_;  // by uid, as looked up
  Sessions sessions_;
  std::unique_ptr<Node> node_;
  bool entering_ = false;  // init or join is under way
  bool stopping_ = false;
  std::uint64_t timer_ = 0;
};

// What handlers answer.
LocalAnswer answer_status(const Status& status, std::string message = {});
LocalAnswer answer_json(const boost::json::object& document);
template <class T>
LocalAnswer answer_with(T message) {
  return LocalAnswer{local_body(std::move(message)), {}};
}

}  // namespace vrampool::service
