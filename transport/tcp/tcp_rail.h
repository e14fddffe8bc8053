// The TCP rail: several data streams to one peer, filled by least outstanding bytes. An answer comes back on the
// stream that asked.
//
// Threads: one. The owner polls streams() and calls their on_readable() / on_writable(), as for any DataStream.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "transport/data_stream.h"
#include "transport/rail.h"

namespace vrampool::transport::tcp {

inline constexpr std::size_t kStreamsPerRailMax = 8;
// Requests that wait for an answer on one stream: enough to hide a round trip, few enough to look through.
inline constexpr std::size_t kAsksPerStreamMax = 64;

class TcpRail final : public Rail, private StreamHandler {
 public:
  TcpRail(RailHandler& handler, bool tls);
  ~TcpRail() override;

  // Adds a connection (usually from connect(), with Greeting::offer).
  Status add(UniqueFd fd, StreamOptions options);
  std::vector<DataStream*> streams() const;
  // Frees streams that are closed. Not from inside a handler.
  void sweep();

  const RailTraits& traits() const override { return traits_; }
  RailHealth health() const override;
  std::uint32_t credits() const override;
  std::uint64_t outstanding_bytes() const override;
  bool send(const Outgoing&) override;
  bool read_pages(wire::DataHeader) override;
  bool write_pages(wire::DataHeader, std::span<const std::byte> crc_table, std::span<const std::byte> pages,
                   std::uint64_t tag) override;
  void divert(RequestNo) override;

 private:
  struct Ask {
    RequestNo request{};
    std::uint32_t bytes = 0;
  };
  struct Lane {
    std::unique_ptr<DataStream> stream;
    std::vector<Ask> asks;
    std::uint64_t asked_bytes = 0;
    std::uint64_t load() const { return stream->queued_bytes() + asked_bytes; }
    bool usable() const { return stream->open() && stream->queue_room() > 0; }
  };
  Lane* lightest(bool for_ask);
  Lane& lane_of(const DataStream&);
  bool ask(const Outgoing&, std::uint32_t bytes);
  void answered(Lane&, RequestNo);

  std::span<std::byte> on_header(DataStream&, const wire::DataHeader& h) override { return handler_.landing(h); }
  void on_open(DataStream&) override;
  void on_message(DataStream&, const Incoming&) override;
  void on_released(DataStream&, std::uint64_t tag, bool sent) override { handler_.released(tag, sent); }
  void on_closed(DataStream&, const Error& why) override;

  RailHandler& handler_;
  RailTraits traits_;
  std::vector<Lane> lanes_;
};

}  // namespace vrampool::transport::tcp
