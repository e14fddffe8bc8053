// The inside of the membership machine. One class in topic files: core.cpp (step, durable orders), follower.cpp
// (heartbeats, leases, catching up), campaign.cpp (promises, take-over), coordinator.cpp (leases, views), replicate.cpp
// (commit, appends, syncs), propose*.cpp (what a command does to the registry), asks.cpp (commands on their way).
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "membership/machine.h"
#include "membership/registry.h"

namespace vrampool::membership {

// A lease is shorter than the detection time by the drift that two clocks may have.
inline constexpr Duration lease_of(Duration detection) { return detection - detection / 10; }
inline constexpr Duration kResendAfter = Duration::millis(200);
inline constexpr Duration kAskAgainAfter = Duration::millis(500);
inline constexpr Duration kProbeEvery = Duration::millis(1000);
inline constexpr Duration kProbeFor =
    Duration::millis(500);  // a restarted coordinator listens this long for a successor
inline constexpr Duration kSyncStalledAfter = Duration::millis(2000);
inline constexpr std::size_t kChangesInFlightMax = 256;
inline constexpr std::size_t kLogKept = 128;  // committed changes kept for members that are catching up
inline constexpr std::size_t kChangesPerAppend = 16;
inline constexpr std::size_t kChunkBytesMax = 4u << 20;
inline constexpr std::size_t kAsksMax = 1024;                // of one member
inline constexpr std::size_t kParkedMax = 16;                // changes of the roster that wait for their turn
inline constexpr std::uint64_t kForcedTermStep = 1'000'000;  // a forced term outranks all that the abandoned can reach

wire::ProposalT proposal_of(const Command&, MemberNo self);  // asks.cpp

class Core {
 public:
  Core(Options options, DurableState state, Instant now);
  void step(const Input& input, Instant now, Outbox& out);

  const Options& options() const { return options_; }
  const Registry& registry() const { return registry_; }
  PoolId pool() const { return pool_; }
  MemberNo self() const { return self_; }
  Term promise() const { return promise_; }
  bool lease_holds(Instant now) const;
  std::optional<MemberNo> followed(Instant now) const;
  bool is_coordinator() const { return role_ == Role::leader; }
  bool is_recovering() const { return role_ == Role::leader && leader_.recovering; }
  bool inert() const { return inert_; }
  std::string describe() const;
  Instant last_heard() const { return last_heard_; }
  SegmentId next_segment_id() { return {self_, options_.life, ++segments_made_}; }

 private:
  enum class Role : std::uint8_t { follower, candidate, leader };

  // What waits for a durable order.
  struct AfterDurable {
    std::uint64_t no = 0;
    std::vector<Send> sends;
    RecordVersion position{};
    Term promise{};
    std::optional<CommandDone> done;
  };
  // A sync on its way in: chunks are gathered and become one change.
  struct Staging {
    std::uint64_t session = 0;
    std::uint32_t next = 0;
    wire::ChangeT change;
    bool ended = false;
  };
  struct PromiseGot {
    Life life{};
    wire::DigestT digest;
    wire::RosterT roster;
    wire::ViewT view;
  };
  struct Candidate {
    bool automatic = false;
    bool force = false;
    bool self_durable = false;
    MemberSet abandoned;
    Term previous{};
    Term highest_seen{};
    Instant resend_at{};
    Instant deadline{};
    std::optional<std::uint64_t> command;
    std::map<MemberNo, PromiseGot> promises;
    // After the quorum: records taken from `best`.
    bool fetching = false;
    Instant quorum_at{};
    MemberNo best{};
    std::set<SegmentId> wanted;
    RecordMap fetched;
    Instant fetch_at{};
    Instant fetch_deadline{};
  };
  // A sync on its way out.
  struct SyncOut {
    std::uint64_t session = 0;
    RecordVersion base{};
    RecordVersion version{};
    std::vector<RecordRef> put;
    std::vector<SegmentId> erase;
    wire::RosterT roster;
    wire::ViewT view;
    std::size_t begin = 0;  // the chunk under way is put[begin, end)
    std::size_t end = 0;
    std::uint32_t index = 0;
    Instant sent_at{};
    Instant progress_at{};
  };
  struct Peer {
    Life life{};
    Incarnation incarnation{};
    bool ever_heard = false;  // in this term
    Instant heard{};
    std::optional<Instant> echo;
    RecordVersion acked{};
    RecordVersion committed{};
    RecordVersion sent{};
    Instant sent_at{};
    Instant announced_at{};
    std::optional<wire::DigestT> digest;
    std::optional<SyncOut> sync;
    std::optional<std::uint64_t> digest_asked;
    Instant digest_asked_at{};
  };
  struct Waiter {
    Sender asker{};
    std::uint64_t request = 0;
    wire::AnswerT answer;
  };
  struct Asker {
    Life life{};
    std::uint64_t done_up_to = 0;
    std::map<std::uint64_t, std::optional<wire::AnswerT>> requests;  // nothing: under way
  };
  struct Parked {
    Sender asker{};
    std::uint64_t request = 0;
    wire::ProposalT proposal;
  };
  struct Leader {
    bool recovering = true;
    Instant started{};
    Instant fence_until{};
    Instant last_tick{};
    RecordVersion stamp{};      // position of the take-over
    std::deque<ChangeRef> log;  // this term's changes, some of them committed
    RecordVersion log_base{};   // position before log.front()
    std::map<MemberNo, Peer> peers;
    std::multimap<RecordVersion, Waiter> waiters;
    std::map<MemberNo, Asker> askers;
    std::vector<Parked> parked;
    std::uint64_t sessions = 0;
    std::optional<std::uint16_t> slot;
    std::uint64_t slot_used = 0;
    RecordVersion joint{};  // the change of the roster under way, and since when
    Instant joint_since{};
    std::optional<Term> contested;
    Instant contested_at{};
    std::optional<std::uint64_t> promote_command;  // done when the first view is committed
  };
  struct AskOut {
    std::uint64_t command = 0;
    wire::ProposalT proposal;
    Instant deadline{};
    Instant again_at{};
    unsigned sent = 0;
  };
  // What a proposal would do.
  struct Decision {
    vp_status code = VP_OK;
    std::string message;
    wire::ChangeT change;
    bool changes = false;
    bool park = false;   // not now: look again after the next commit
    SegmentId record{};  // to be told in the answer
    MemberNo member{};
  };

  // core.cpp
  void dispatch(const wire::MembershipMessageT&);
  bool admit_sender(const wire::MembershipMessageT&);
  bool from_coordinator(const wire::MembershipMessageT&);
  void on_tick();
  void on_command(const Command&);
  void on_persisted(std::uint64_t no);
  void command_init(std::uint64_t no, const Init&);
  void command_promote(std::uint64_t no, const Promote&);
  void persist(std::vector<DurableOp> ops, AfterDurable after, bool sync = true);
  void send(MemberNo to, wire::MembershipMessageT message) { out_->push_back(Send{to, std::move(message)}); }
  template <class BodyT>
  wire::MembershipMessageT message(MemberNo to, BodyT body) const {
    wire::MembershipMessageT m;
    m.from = {self_, options_.life};
    m.to = to.value;
    m.term = promise_;
    m.node = to_wire(options_.node);
    m.body.Set(std::move(body));
    return m;
  }
  template <class BodyT>
  void tell(MemberNo to, BodyT body) {
    send(to, message(to, std::move(body)));
  }
  void done(std::uint64_t no, vp_status code, std::string text) {
    out_->push_back(CommandDone{no, code, std::move(text), nullptr, {}, nullptr});
  }
  void adopt_term(Term term);
  void become_follower(Term by);
  void check_lease();
  void make_visible(RecordVersion through);
  void retire(bool forgotten);
  void refuse(MemberNo to, bool forgotten);
  bool coordinator_alive() const;

  // follower.cpp
  void tick_follower();
  void probe();
  wire::HeartbeatT heartbeat() const;
  void on_lease(const wire::LeaseT&);
  void on_append(MemberNo from, const wire::AppendT&);
  void on_digest_ask(MemberNo from, const wire::DigestAskT&);
  void on_sync(MemberNo from, const wire::SyncT&);
  void finish_sync(MemberNo from, const wire::SyncT&);
  void on_refused(MemberNo from, const wire::RefusedT&);
  void on_fetch(MemberNo from, const wire::FetchT&);
  void report_position(MemberNo to, RecordVersion position);

  // campaign.cpp
  bool led_before() const;
  void campaign(Candidate candidate, std::uint64_t count);
  void ask_promises();
  void on_promise_ask(const wire::MembershipMessageT&);
  void on_promise(const wire::MembershipMessageT&);
  void tick_candidate();
  void fail_campaign(vp_status code, const std::string& text);
  MemberSet candidate_targets() const;
  void try_win();
  MemberNo most_advanced() const;
  bool has_quorum(const wire::RosterT&) const;
  MemberSet given_up(const wire::RosterT&) const;
  std::string missing_promises() const;
  const wire::RosterT& roster_of(MemberNo) const;
  const wire::DigestT* digest_of(MemberNo) const;
  void begin_fetch();
  void ask_fetch();
  void on_fetched(MemberNo from, const wire::FetchedT&);
  void take_over();
  void start_leading(RecordVersion stamp, Instant fence_until);
  wire::ChangeT take_over_change() const;

  // coordinator.cpp
  bool open() const;                                         // the take-over is durable
  std::optional<Instant> authority_base(Instant now) const;  // a quorum still followed this term then
  bool has_authority(Instant now) const;
  void on_heartbeat(const wire::MembershipMessageT&);
  void note_position(MemberNo, Peer&, RecordVersion);
  Peer* hear(const wire::MembershipMessageT&);
  void contest(Term);
  void tick_leader();
  void absorb_pause();
  void announce();
  void update_view();
  bool view_may_change() const;
  wire::ViewT desired_view() const;
  std::unique_ptr<wire::ViewMemberT> desired_line(MemberNo) const;
  bool caught_up(const Peer&) const;

  // replicate.cpp
  void propose(wire::ChangeT change);
  void replicate(MemberNo, Peer&);
  void send_changes(MemberNo, Peer&, RecordVersion after);
  bool in_log(RecordVersion) const;
  void on_appended(const wire::MembershipMessageT&);
  void try_commit();
  void answer_waiters();
  RecordVersion acked_by_all() const;
  void trim_log();
  void start_sync(MemberNo, Peer&);
  void begin_sync(MemberNo, Peer&, const wire::DigestT&);
  void send_chunk(MemberNo, Peer&);
  void on_digest_reply(const wire::MembershipMessageT&);
  void on_sync_ack(const wire::MembershipMessageT&);
  void replicate_all();

  // propose.cpp, propose_roster.cpp
  void on_ask(const wire::MembershipMessageT&);
  void on_proposal(Sender asker, const wire::AskT&);
  void carry_out(Sender asker, std::uint64_t request, const wire::ProposalT&);
  Decision decide(MemberNo asker, const wire::ProposalT&);
  Decision decide_create(MemberNo asker, const wire::ProposalT&);
  Decision decide_seal(const wire::ProposalT&);
  Decision decide_rename(const wire::ProposalT&);
  Decision decide_remove(const wire::ProposalT&);
  Decision decide_update(const wire::ProposalT&);
  Decision decide_freed(MemberNo asker, const wire::ProposalT&);
  static Decision fail(vp_status code, std::string text);
  Decision decide_admit(const wire::ProposalT&);
  Decision decide_forget(MemberNo asker, const wire::ProposalT&);
  Decision check_new_name(const std::string& name, const SegmentId& id, bool published_counts) const;
  Decision check_pieces(const wire::RecordT&) const;
  bool give_address(wire::RecordT&, wire::ChangeT&);
  void put(wire::ChangeT&, wire::RecordT) const;
  RecordVersion next_version() const { return {promise_, registry_.position().seq + 1}; }
  void finish_roster_change();
  Decision change_roster(wire::RosterT joint);
  void forget_gone_hosts();
  void erase(wire::ChangeT&, const SegmentId&) const;
  void retry_parked();
  void reply(Sender asker, std::uint64_t request, wire::AnswerT);
  wire::AnswerT answer_of(const Decision&, std::uint64_t request) const;

  // asks.cpp
  void start_ask(std::uint64_t command, wire::ProposalT);
  void send_ask(std::uint64_t request, AskOut&);
  void tick_asks();
  void on_answer(const wire::AnswerT&);
  void end_ask(std::uint64_t request, CommandDone);

  Options options_;
  PoolId pool_{};
  MemberNo self_{};
  Registry registry_;
  Term promise_{};
  Term durable_promise_{};
  RecordVersion durable_position_{};
  Role role_ = Role::follower;
  bool inert_ = false;
  std::uint64_t persists_ = 0;
  std::deque<AfterDurable> after_durable_;

  // Follower.
  Instant lease_until_{};
  bool lease_seen_ = false;                   // LeaseGained was the last of the two
  std::optional<Instant> heard_coordinator_;  // in this term
  Instant last_heard_{};                      // in any
  std::int64_t echo_ns_ = 0;                  // coordinator's clock; 0: none in this term
  Instant heartbeat_at_{};
  Instant probe_at_{};
  std::optional<Staging> staging_;
  std::optional<Instant> probe_until_;  // a restarted coordinator, before it campaigns
  MemberSet probed_;

  Candidate candidate_;
  Leader leader_;

  std::map<std::uint64_t, AskOut> asks_;
  std::uint64_t asks_made_ = 0;
  std::uint64_t segments_made_ = 0;

  // Of the current step only.
  Instant now_{};
  Outbox* out_ = nullptr;
};

}  // namespace vrampool::membership
