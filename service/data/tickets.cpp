// Tickets: how a data connection proves that its peer was admitted over the control link.
#include <algorithm>

#include "platform/clock.h"
#include "service/data/node.h"

namespace vrampool::service::data {

wire::Ticket Tickets::issue(Sender from) {
  wire::Ticket ticket;
  platform::random_bytes(ticket.data(), ticket.size());
  const Instant now = platform::now();
  std::lock_guard lock(mutex_);
  if (tickets_.size() >= kTicketsMax) {
    std::erase_if(tickets_, [&](const auto& t) { return t.second.expires <= now; });
    if (tickets_.size() >= kTicketsMax) {
      const auto oldest = std::min_element(tickets_.begin(), tickets_.end(), [](const auto& a, const auto& b) {
        return a.second.expires < b.second.expires;
      });
      tickets_.erase(oldest);
    }
  }
  tickets_[ticket] = {from, now + Duration::millis(kConnectDeadlineMs)};
  return ticket;
}

Result<Sender> Tickets::redeem(const wire::Ticket& ticket) {
  std::lock_guard lock(mutex_);
  const auto it = tickets_.find(ticket);
  if (it == tickets_.end()) return error(VP_DENIED, "the ticket of this data connection is unknown or used");
  const Entry entry = it->second;
  tickets_.erase(it);
  if (entry.expires < platform::now()) return error(VP_DENIED, "the ticket of this data connection has expired");
  return entry.from;
}

}  // namespace vrampool::service::data
