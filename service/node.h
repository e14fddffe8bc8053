// This node as a member of its pool, for one life: links, membership, data plane, pieces, segments and jobs in one
// place. The hub of the star: whatever one of them says to another passes here.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "service/config.h"
#include "service/data_plane.h"
#include "service/jobs.h"
#include "service/members.h"
#include "service/peers.h"
#include "service/pieces.h"
#include "service/segments.h"
#include "service/store.h"

namespace vrampool::service {

using StartDataPlane = std::function<Result<std::unique_ptr<DataPlane>>(DataPlaneOptions)>;

// What happens in a life that others must hear of. Called on the control thread.
class NodeOwner {
 public:
  virtual ~NodeOwner() = default;
  virtual void loss(ClientNo client, wire::LossEventT event) = 0;
  virtual void life_ended(bool forgotten) = 0;
  // The same document as `vrampool status` gives, for other members.
  virtual std::string status_json() = 0;
};

struct NodeParts {
  Loop& loop;
  Workers& files;
  Store& store;
  const Config& config;
  Birth birth;
  PoolKey key;
  StartDataPlane start_data_plane;
  NodeOwner& owner;
};

// Threads: control thread.
class Node final : public PeersOwner, public MembersOwner, public SegmentsOwner {
 public:
  // Errors: control port in use, data plane cannot start.
  static Result<std::unique_ptr<Node>> start(NodeParts parts, membership::DurableState state);
  ~Node() override;

  Peers& peers() { return peers_; }
  Members& members() { return *members_; }
  const membership::Machine& machine() const { return members_->machine(); }
  DataPlane& data() { return *data_; }
  Pieces& pieces() { return *pieces_; }
  Segments& segments() { return *segments_; }
  Jobs& jobs() { return *jobs_; }
  const PoolKey& key() const { return parts_.key; }
  const Birth& birth() const { return parts_.birth; }
  Sender self() const { return self_; }
  std::vector<std::string> addresses() const;

  Reply<Result<Body>> ask(MemberNo member, Body request) override;
  Task<Status> forget(MemberNo member);
  Task<Status> promote(bool force);
  // Members that do not answer; what a forced promote abandons.
  std::vector<MemberNo> silent_members() const;

  // Creations of clients that are gone, until they are dropped.
  void abandon(SegmentId id);

 private:
  explicit Node(NodeParts parts) : parts_(std::move(parts)), peers_(parts_.loop, *this) {}
  Status open(membership::DurableState state);
  DataPlaneOptions data_options();
  void tell_members();
  void drop_abandoned();
  Task<> drop_one(SegmentId id);
  Task<> answer_self(Body request, Reply<Result<Body>> reply);
  Task<> fetch_ticket(MemberNo to, DoneWith<wire::Ticket> done);

  // PeersOwner
  void membership_message(wire::MembershipMessageT message) override;
  Task<Body> answer(PeerFacts from, Body request) override;
  void peer_changed(MemberNo member) override;
  Task<Body> admit(wire::JoinRequestT ask);
  Body ticket_for(Sender from);
  // MembersOwner
  void view_changed(const wire::ViewT&) override;
  void record_applied(const membership::RecordRef&) override;
  void record_erased(SegmentId) override {}
  void roster_changed(const wire::RosterT&) override;
  void lease_changed(bool holds) override;
  void must_restart(bool forgotten) override;

  NodeParts parts_;
  Sender self_{};
  Peers peers_;
  std::unique_ptr<Members> members_;
  std::unique_ptr<DataPlane> data_;
  std::unique_ptr<Pieces> pieces_;
  std::unique_ptr<Segments> segments_;
  std::unique_ptr<Jobs> jobs_;
  std::set<SegmentId> dropping_;
  std::uint64_t timer_ = 0;
  bool ended_ = false;
};

// Where other members may reach a node that listens there: the configured address, or those of its interfaces.
std::vector<std::string> advertised_addresses(const Config& config, std::uint16_t port);

}  // namespace vrampool::service
