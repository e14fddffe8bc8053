// The other members as this node reaches them: links that are kept up, calls with deadlines, requests to answer.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/limits.h"
#include "service/links.h"
#include "wire/control_generated.h"

namespace vrampool::service {

// Calls that wait for their answer, and requests being answered, per daemon.
inline constexpr std::size_t kCallsMax = 4096;
inline constexpr std::size_t kRequestsMax = 1024;
inline constexpr std::int64_t kRedialFirstMs = 250;
inline constexpr std::int64_t kRedialMaxMs = 10'000;
// One who was refused (wrong key, wrong pool) asks again this seldom.
inline constexpr std::int64_t kRedialRefusedMs = 30'000;

using Body = wire::BodyUnion;
template <class T>
Body body_of(T message) {
  Body b;
  b.Set(std::move(message));
  return b;
}

// What this node says of itself when it greets.
struct SelfFacts {
  PoolId pool{};
  NodeId node{};
  Sender sender{};
  Incarnation incarnation{};
  std::string name;
  std::uint16_t data_port = 0;
  bool data_tls = false;
};

class PeersOwner {
 public:
  virtual ~PeersOwner() = default;
  virtual void membership_message(wire::MembershipMessageT message) = 0;
  // Answers a request of `from`.
  virtual Task<Body> answer(PeerFacts from, Body request) = 0;
  // A link to a member came or went: its data address may be new.
  virtual void peer_changed(MemberNo member) = 0;
};

// Threads: control thread.
class Peers final : private LinkOwner {
 public:
  Peers(Loop& loop, PeersOwner& owner) : loop_(loop), owner_(owner) {}
  ~Peers() override;
  Status start(const PoolKey& key, const std::string& listen, std::uint16_t port);
  // Only call_address(), for a node that is not a member yet.
  Status start_outward(const PoolKey& key);
  void stop();

  void set_self(SelfFacts self) { self_ = std::move(self); }
  void set_epoch(Epoch epoch) { epoch_ = epoch; }
  // The members to stay connected with.
  void set_roster(const wire::RosterT& roster);
  std::uint16_t port() const { return links_ ? links_->port() : 0; }

  void send_membership(MemberNo to, wire::MembershipMessageT message);
  // Sends now; the answer, VP_UNREACHABLE, or VP_TIMEOUT after `deadline`.
  Reply<Result<Body>> call(MemberNo to, Body request, Duration deadline = Duration::millis(kControlCallDeadlineMs));
  // The same over a connection to an address, for one who is not a member yet.
  Task<Result<Body>> call_address(std::string address, Body request, Duration deadline);

  bool connected(MemberNo member) const;
  // What the newest open link says; nothing without a link.
  const PeerFacts* facts(MemberNo member) const;
  // Why a member that is not connected is not, as of the last attempt.
  std::string trouble(MemberNo member) const;
  // Closes the links of lives that are over.
  void drop_life(MemberNo member, Life older_than);

 private:
  struct Target {
    std::vector<std::string> addresses;
    struct Dial {
      bool busy = false;
      Instant next{};
      std::int64_t pause_ms = kRedialFirstMs;
      std::size_t address = 0;
      std::string trouble;
    };
    std::map<wire::LinkRole, Dial> dials;
  };
  struct Call {
    Link* link = nullptr;
    MemberNo to{};
    std::uint64_t timer = 0;
    Reply<Result<Body>> reply;
  };

  wire::HelloT hello(wire::LinkRole role) override;
  std::string judge(const PeerFacts& peer, PoolId pool) override;
  void link_up(const LinkPtr&) override;
  void link_down(const LinkPtr&, const std::string& why) override;
  void link_message(const LinkPtr&, std::span<const std::byte> message) override;
  void stranger_refused(const std::string& address, const std::string& why) override;

  void redial();
  void dial(MemberNo member, Target& target, wire::LinkRole role);
  void dial_failed(MemberNo member, wire::LinkRole role, const std::string& why);
  LinkPtr link_to(MemberNo member, wire::LinkRole role) const;
  wire::EnvelopeT envelope(MemberNo to, Body body) const;
  Reply<Result<Body>> call_on(const LinkPtr& link, MemberNo to, Body request, Duration deadline);
  void finish_call(std::uint64_t no, Result<Body> result);
  void on_request(const LinkPtr&, wire::EnvelopeT);
  Task<> answer_on(std::weak_ptr<Link> link, PeerFacts from, wire::EnvelopeT request);

  Loop& loop_;
  PeersOwner& owner_;
  SelfFacts self_;
  Epoch epoch_{};
  std::unique_ptr<Links> links_;
  std::map<MemberNo, Target> targets_;
  std::vector<LinkPtr> open_;
  std::map<std::uint64_t, Call> calls_;
  std::map<std::string, std::string> said_;  // host -> the last complaint, so that it is logged once
  std::uint64_t next_call_ = 1;
  std::size_t requests_ = 0;
  std::uint64_t redial_timer_ = 0;
};

}  // namespace vrampool::service
