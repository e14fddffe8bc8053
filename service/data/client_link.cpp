#include "service/data/client_link.h"

#include "service/data/checks.h"
#include "service/data/client_ops.h"
#include "service/data/data_loop.h"

namespace vrampool::service::data {

ClientLink::~ClientLink() { loop_->ops().forget(*this); }

std::span<std::byte> ClientLink::on_header(transport::DataStream&, const wire::DataHeader& h) {
  if (h.kind != wire::DataKind::write) return {};
  if (!landing_) landing_ = loop_->buffers().take();
  return landing_.bytes().first(landing_ ? h.length : 0);
}

void ClientLink::on_message(transport::DataStream&, const transport::Incoming& in) {
  const wire::DataHeader& h = in.header;
  switch (h.kind) {
    case wire::DataKind::read:
      return loop_->ops().read(*this, h);
    case wire::DataKind::write:
      if (in.discarded) return refuse(h, error(VP_BUSY, "too many writes at once"));
      return loop_->ops().write(*this, h, landing_);
    case wire::DataKind::ping:
      return answer(h, wire::DataKind::pong);
    default:
      return refuse(h, error(VP_INVALID, "a client only reads, writes and pings here"));
  }
}

void ClientLink::on_released(transport::DataStream&, std::uint64_t tag, bool) { loop_->release(tag); }

void ClientLink::on_closed(transport::DataStream&, const Error&) { loop_->ops().forget(*this); }

void ClientLink::answer(const wire::DataHeader& to, wire::DataKind kind, std::span<const std::byte> body,
                        std::uint64_t tag) {
  transport::Outgoing out{to, {}, body, tag};
  out.header.kind = kind;
  out.header.source = loop_->node().self();
  out.header.epoch = loop_->epoch();
  if (kind == wire::DataKind::data) out.header.length = static_cast<std::uint32_t>(body.size());
  if (send(out)) return;
  loop_->release(tag);
  close(error(VP_BUSY, "client {} does not take its answers", client_.value));
}

void ClientLink::refuse(const wire::DataHeader& to, const Error& why) {
  transport::Outgoing out{to, failure_text(why)};
  out.header.kind = wire::DataKind::failure;
  out.header.status = static_cast<std::uint16_t>(why.code);
  out.header.source = loop_->node().self();
  if (!send(out)) close(error(VP_BUSY, "client {} does not take its answers", client_.value));
}

}  // namespace vrampool::service::data
