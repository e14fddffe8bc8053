// Measures page reads from one peer to another, one after the other, on the engine's own connection.
#pragma once

#include <memory>

#include "service/data/peer_link.h"

namespace vrampool::service::data {

// Threads: the engine's loop. Ownership: keeps itself until it has answered.
class PageBench final : public Asker {
 public:
  static void start(DataLoop&, const DataPlane::BenchAsk&, DoneWith<DataPlane::BenchAnswer>);

 private:
  PageBench(DataLoop& loop, const DataPlane::BenchAsk& what, DoneWith<DataPlane::BenchAnswer> done)
      : loop_(loop), what_(what), done_(std::move(done)) {}
  void next();
  void end(Result<DataPlane::BenchAnswer>);
  void answered(std::uint64_t, const transport::Incoming&) override;
  void unanswered(std::uint64_t, const Error& why) override { end(why); }

  DataLoop& loop_;
  DataPlane::BenchAsk what_;
  DoneWith<DataPlane::BenchAnswer> done_;
  DataPlane::BenchAnswer answer_;
  std::uint64_t pages_ = 1;
  std::int64_t sent_ns_ = 0;
  Duration cpu_at_start_{};
  std::unique_ptr<PageBench> self_;
};

}  // namespace vrampool::service::data
