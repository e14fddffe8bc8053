// The driver of membership::Machine.
#include "service/members.h"

#include "base/log.h"
#include "base/overload.h"
#include "platform/clock.h"

namespace vrampool::service {

using membership::CommandDone, membership::Input, membership::Outbox;

namespace {

constexpr std::int64_t kRecoveringPauseMs = 100;

}  // namespace

Members::Members(Loop& loop, Store& store, Peers& peers, MembersOwner& owner, membership::Options options,
                 membership::DurableState state)
    : loop_(loop), store_(store), peers_(peers), owner_(owner), machine_(options, std::move(state), platform::now()) {}

Members::~Members() {
  *alive_ = false;
  loop_.forget(timer_);
}

void Members::start_ticking() { tick(); }

void Members::tick() {
  give(membership::Tick{});
  timer_ = loop_.after(Duration::millis(membership::kTickEveryMs), [this] { tick(); });
}

void Members::receive(wire::MembershipMessageT message) { give(membership::PeerMessage{std::move(message)}); }

Task<Result<CommandDone>> Members::run(What what) {
  const Instant until = platform::now() + Duration::millis(kControlCallDeadlineMs);
  while (true) {
    What copy = what;
    Result<CommandDone> done = co_await run_once(std::move(copy));
    if (done || done.error().code != VP_RECOVERING || platform::now() > until) co_return done;
    co_await loop_.sleep(Duration::millis(kRecoveringPauseMs));
  }
}

Task<Result<CommandDone>> Members::run_once(What what) {
  const std::uint64_t no = next_command_++;
  auto reply = loop_.reply<Result<CommandDone>>();
  commands_.emplace(no, reply);
  give(membership::Command{no, std::move(what)});
  // The machine has deadlines of its own; this one is for a machine that was stopped.
  co_return co_await loop_.within(Duration::millis(2 * kControlCallDeadlineMs), reply, "the coordinator");
}

// One step at a time: what a step puts out may put something in again.
void Members::give(Input input) {
  inputs_.push_back(std::move(input));
  if (std::exchange(stepping_, true)) return;
  while (!inputs_.empty()) {
    const Input next = std::move(inputs_.front());
    inputs_.pop_front();
    Outbox out;
    machine_.step(next, platform::now(), out);
    for (membership::Output& o : out) take(o);
  }
  stepping_ = false;
}

void Members::take(membership::Output& output) {
  std::visit(
      Overload{
          [this](membership::Send& o) { peers_.send_membership(o.to, std::move(o.message)); },
          [this](membership::Persist& o) {
            const std::uint64_t no = o.no;
            store_.persist(std::move(o), [this, no, alive = alive_, post = loop_.poster()] {
              post([this, no, alive] {
                if (*alive) give(membership::Persisted{no});
              });
            });
          },
          [this](membership::ViewChanged& o) { owner_.view_changed(o.view); },
          [this](membership::RecordApplied& o) { owner_.record_applied(o.record); },
          [this](membership::RecordErased& o) { owner_.record_erased(o.id); },
          [this](membership::RosterChanged& o) { owner_.roster_changed(o.roster); },
          [this](CommandDone& o) {
            const auto node = commands_.extract(o.no);
            if (node.empty()) return;
            if (o.code == VP_OK)
              node.mapped().set(std::move(o));
            else
              node.mapped().set(Error{o.code, o.message});
          },
          [this](membership::LeaseGained&) { owner_.lease_changed(true); },
          [this](membership::LeaseLost&) { owner_.lease_changed(false); },
          [](membership::BecameCoordinator& o) { log::info("this node coordinates the pool (term {})", o.term.count); },
          [](membership::Deposed& o) {
            log::info("member {} coordinates the pool now (term {})", o.by.member.value, o.by.count);
          },
          [this](membership::MustRestart& o) { owner_.must_restart(o.forgotten); },
      },
      output);
}

std::string Members::name_of(MemberNo member) const {
  for (const auto& entry : machine_.roster().entries)
    if (entry->member == member.value) return entry->name;
  return fmt::format("member {}", member.value);
}

}  // namespace vrampool::service
