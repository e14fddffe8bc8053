// A data connection that a peer opened: its ticket is judged, then its reads and writes are answered from this node's
// pieces and from nothing else.
#pragma once

#include <optional>
#include <string>

#include "service/data/link.h"
#include "transport/tcp/socket.h"

namespace vrampool::service::data {

// Threads: the loop's. Fast connections move to the engine's loop, bulk ones to a mover, once they are admitted.
class ServerLink final : public Link {
 public:
  static void take(DataLoop&, transport::tcp::Accepted);
  ServerLink(DataLoop&, UniqueFd, std::string peer);
  ~ServerLink() override;

  // The view changed: a sender that is no longer in it is cut off.
  void judge_again();
  // Until when it must be admitted; nothing once it is.
  std::optional<Instant> deadline() const { return open() || finished() ? std::nullopt : std::optional(admitted_by_); }
  void give_up();
  bool finished() const override { return !unread_ && dead(); }

 private:
  void on_event(const platform::PollEvent&) override;
  void after_event() override;
  Status on_hello(transport::DataStream&, const wire::DataHeader&, const wire::Ticket&) override;
  void on_open(transport::DataStream&) override;
  std::span<std::byte> on_header(transport::DataStream&, const wire::DataHeader&) override;
  void on_message(transport::DataStream&, const transport::Incoming&) override;
  void on_released(transport::DataStream&, std::uint64_t tag, bool sent) override;
  void on_closed(transport::DataStream&, const Error& why) override;

  void begin(bool tls);
  void answer_read(const wire::DataHeader&);
  void answer_echo(const wire::DataHeader&);
  void answer_write(const transport::Incoming&);
  Status apply_write(const transport::Incoming&);
  void answer(const wire::DataHeader& to, wire::DataKind, std::span<const std::byte> side = {},
              std::span<const std::byte> body = {}, std::uint64_t tag = 0);
  void refuse(const wire::DataHeader& to, const Error& why);

  UniqueFd unread_;  // until the first byte says whether it speaks TLS
  EventLoop::Token unread_token_ = 0;
  std::string peer_;
  Instant admitted_by_{};
  Sender sender_{};
  DataLoop* move_to_ = nullptr;
  Buffer landing_;
};

}  // namespace vrampool::service::data
