// A client's data channel: byte-exact reads of any segment it knows, writes into segments that it creates, pings.
#pragma once

#include "service/data/link.h"

namespace vrampool::service::data {

// Threads: the loop's. The socket's other end is a local process; nothing it sends is trusted.
class ClientLink final : public Link {
 public:
  ClientLink(DataLoop& loop, ClientNo client) : Link(loop), client_(client) {}
  ~ClientLink() override;

  ClientNo client() const { return client_; }
  void answer(const wire::DataHeader& to, wire::DataKind, std::span<const std::byte> body = {}, std::uint64_t tag = 0);
  void refuse(const wire::DataHeader& to, const Error& why);

 private:
  std::span<std::byte> on_header(transport::DataStream&, const wire::DataHeader&) override;
  void on_message(transport::DataStream&, const transport::Incoming&) override;
  void on_released(transport::DataStream&, std::uint64_t tag, bool sent) override;
  void on_closed(transport::DataStream&, const Error& why) override;

  ClientNo client_;
  Buffer landing_;
};

}  // namespace vrampool::service::data
