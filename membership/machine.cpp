// The face of the machine: forwards to its core.
#include "membership/machine.h"

#include "base/mark.h"
#include "membership/core.h"

namespace vrampool::membership {

Machine::Machine(Options options, DurableState state, Instant now)
    : core_(std::make_unique<Core>(options, std::move(state), now)) {}
Machine::~Machine() = default;
Machine::Machine(Machine&&) noexcept = default;
Machine& Machine::operator=(Machine&&) noexcept = default;

void Machine::step(const Input& input, Instant now, Outbox& out) { core_->step(input, now, out); }

PoolId Machine::pool() const { return core_->pool(); }
MemberNo Machine::self() const { return core_->self(); }
Life Machine::life() const { return core_->options().life; }
Term Machine::term() const { return core_->promise(); }
Epoch Machine::epoch() const { return core_->registry().view().epoch; }
const wire::ViewT& Machine::view() const { return core_->registry().view(); }
const wire::RosterT& Machine::roster() const { return core_->registry().roster(); }
bool Machine::lease_holds(Instant now) const { return core_->lease_holds(now); }
std::optional<MemberNo> Machine::coordinator(Instant now) const { return core_->followed(now); }
bool Machine::is_coordinator() const { return core_->is_coordinator(); }
bool Machine::is_recovering() const { return core_->is_recovering(); }
bool Machine::must_restart() const { return core_->inert(); }

std::optional<Instant> Machine::silent_since(Instant now) const {
  if (core_->followed(now)) return std::nullopt;
  return core_->last_heard();
}

bool Machine::is_current(Sender sender) const {
  if (VP_BUG(21)) return alive_members(view()).contains(sender.member);
  return is_alive(view(), sender);
}

RecordRef Machine::find(SegmentId id) const {
  const auto at = core_->registry().records().find(id);
  return at == core_->registry().records().end() ? nullptr : at->second;
}

RecordRef Machine::find_by_name(std::string_view name) const { return core_->registry().published(name); }
RecordRef Machine::find_reserved(std::string_view name) const { return core_->registry().reserved(name); }

std::vector<RecordRef> Machine::records() const {
  std::vector<RecordRef> all;
  for (const auto& [id, record] : core_->registry().records()) all.push_back(record);
  return all;
}

bool Machine::registry_is_current(Instant now) const { return lease_holds(now); }

std::vector<SegmentId> Machine::abandoned_creations() const {
  std::vector<SegmentId> ids;
  for (const auto& [id, record] : core_->registry().records())
    if (record->state == wire::SegmentState::creating && !is_current(record->creator)) ids.push_back(id);
  return ids;
}

std::string Machine::describe() const { return core_->describe(); }
SegmentId Machine::next_segment_id() { return core_->next_segment_id(); }

}  // namespace vrampool::membership
