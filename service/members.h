// Drives the membership machine: time, disk and links go in, views, records and answers come out.
#pragma once

#include <deque>
#include <functional>
#include <map>

#include "membership/machine.h"
#include "service/loop.h"
#include "service/peers.h"
#include "service/store.h"

namespace vrampool::service {

class MembersOwner {
 public:
  virtual ~MembersOwner() = default;
  virtual void view_changed(const wire::ViewT&) = 0;
  virtual void record_applied(const membership::RecordRef&) = 0;
  virtual void record_erased(SegmentId) = 0;
  virtual void roster_changed(const wire::RosterT&) = 0;
  virtual void lease_changed(bool holds) = 0;
  // This life is over.
  virtual void must_restart(bool forgotten) = 0;
};

// Threads: control thread.
class Members {
 public:
  using CommandDone = membership::CommandDone;
  using What = decltype(membership::Command::what);

  Members(Loop& loop, Store& store, Peers& peers, MembersOwner& owner, membership::Options options,
          membership::DurableState state);
  ~Members();

  void start_ticking();
  void receive(wire::MembershipMessageT message);
  // Ends with the machine's CommandDone; an error carries its code and message. While a coordinator takes over or this
  // node catches up it is asked again, until kControlCallDeadlineMs.
  Task<Result<CommandDone>> run(What what);
  const membership::Machine& machine() const { return machine_; }
  membership::Machine& machine() { return machine_; }
  std::string name_of(MemberNo member) const;

 private:
  Task<Result<CommandDone>> run_once(What what);
  void give(membership::Input input);
  void take(membership::Output& output);
  void tick();

  Loop& loop_;
  Store& store_;
  Peers& peers_;
  MembersOwner& owner_;
  membership::Machine machine_;
  std::deque<membership::Input> inputs_;
  bool stepping_ = false;
  std::map<std::uint64_t, Reply<Result<CommandDone>>> commands_;
  std::uint64_t next_command_ = 1;
  std::uint64_t timer_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace vrampool::service
