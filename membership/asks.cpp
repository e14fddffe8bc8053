// Commands on their way to the coordinator: repeated until answered or out of time.
#include "base/mark.h"
#include "membership/core.h"

namespace vrampool::membership {

using wire::ProposalKind;

namespace {
struct ToProposal {
  wire::ProposalT& p;
  void operator()(const Init&) const {}
  void operator()(const Promote&) const {}
  void operator()(const Admit& c) const {
    p.kind = ProposalKind::admit;
    p.node = to_wire(c.node);
    p.name = c.name;
    p.machine = c.machine;
    p.addresses = c.addresses;
  }
  void operator()(const Forget& c) const {
    p.kind = ProposalKind::forget;
    p.member = c.member.value;
  }
  void operator()(const Leave&) const { p.kind = ProposalKind::forget; }
  void operator()(const Create& c) const {
    p.kind = ProposalKind::create;
    p.id = c.record.id;
    p.record = std::make_unique<wire::RecordT>(c.record);
    p.expect_absent = c.expect_absent;
  }
  void operator()(const Seal& c) const {
    p.kind = ProposalKind::seal;
    p.id = c.record.id;
    p.keep_replaced = c.keep_replaced;
    if (c.replace_parts) p.record = std::make_unique<wire::RecordT>(c.record);
  }
  void operator()(const Rename& c) const {
    p.kind = ProposalKind::rename;
    p.id = c.id;
    p.name = c.name;
  }
  void operator()(const Remove& c) const {
    p.kind = ProposalKind::remove;
    p.id = c.id;
  }
  void operator()(const Update& c) const {
    p.kind = ProposalKind::update;
    p.id = c.record.id;
    p.record = std::make_unique<wire::RecordT>(c.record);
  }
  void operator()(const Freed& c) const {
    p.kind = ProposalKind::freed;
    p.id = c.id;
  }
};
}  // namespace

wire::ProposalT proposal_of(const Command& command, MemberNo self) {
  wire::ProposalT proposal;
  std::visit(ToProposal{proposal}, command.what);
  if (std::holds_alternative<Leave>(command.what)) proposal.member = self.value;
  return proposal;
}

void Core::start_ask(std::uint64_t command, wire::ProposalT proposal) {
  if (!lease_holds(now_)) {
    if (followed(now_))
      return done(command, VP_RECOVERING,
                  "a coordinator is taking over, or this node is catching up: try again in a moment");
    return done(command, VP_NO_COORDINATOR,
                "no coordinator is heard: see `vrampool status`, then start it or run `vrampool promote`");
  }
  if (asks_.size() >= kAsksMax)
    return done(command, VP_BUSY, "too many changes are under way on this node: try again in a moment");
  AskOut& ask = asks_[++asks_made_];
  ask.command = command;
  ask.proposal = std::move(proposal);
  ask.deadline = now_ + options_.command_deadline;
  send_ask(asks_made_, ask);
}

void Core::send_ask(std::uint64_t request, AskOut& out) {
  out.again_at = now_ + kAskAgainAfter;
  const auto coordinator = followed(now_);
  if (!coordinator || promise_ != durable_promise_) return;
  ++out.sent;
  if (out.sent > 1) VP_MARK(ask_sent_again);
  wire::AskT ask;
  ask.request = request;
  ask.done_up_to = asks_.begin()->first - 1;
  ask.proposal = std::make_unique<wire::ProposalT>(out.proposal);
  if (role_ == Role::leader) return on_proposal({self_, options_.life}, ask);
  tell(*coordinator, std::move(ask));
}

void Core::tick_asks() {
  std::vector<std::uint64_t> requests;
  for (const auto& [request, ask] : asks_) requests.push_back(request);
  for (const std::uint64_t request : requests) {
    const auto at = asks_.find(request);
    if (at == asks_.end()) continue;
    if (now_ >= at->second.deadline) {
      VP_MARK(ask_timed_out);
      end_ask(request, {0,
                        VP_UNKNOWN_OUTCOME,
                        "the coordinator did not answer in time: it may or may not have happened",
                        nullptr,
                        {},
                        nullptr});
    } else if (now_ >= at->second.again_at) {
      send_ask(request, at->second);
    }
    if (inert_) return;
  }
}

void Core::on_answer(const wire::AnswerT& answer) {
  const auto at = asks_.find(answer.request);
  if (answer.to != Sender{self_, options_.life} || at == asks_.end()) return;
  const auto code = static_cast<vp_status>(answer.status);
  // An earlier sending may have been executed by whoever led then: only a real answer ends it.
  const bool refused = code == VP_NO_COORDINATOR || code == VP_RECOVERING || code == VP_BUSY;
  if (refused && at->second.sent > 1) return;
  CommandDone result{0, code, answer.message, nullptr, MemberNo{answer.member}, nullptr};
  if (answer.record) result.record = std::make_shared<const wire::RecordT>(*answer.record);
  if (answer.roster) result.roster = std::make_shared<const wire::RosterT>(*answer.roster);
  end_ask(answer.request, std::move(result));
}

void Core::end_ask(std::uint64_t request, CommandDone result) {
  const auto at = asks_.find(request);
  result.no = at->second.command;
  const bool left = result.code == VP_OK && at->second.proposal.kind == ProposalKind::forget &&
                    at->second.proposal.member == self_.value;
  asks_.erase(at);
  out_->push_back(std::move(result));
  if (left) retire(true);
}

}  // namespace vrampool::membership
