#include "service/data/page_bench.h"

#include <algorithm>

#include "platform/clock.h"
#include "service/data/checks.h"
#include "service/data/data_loop.h"
#include "service/data/engine.h"

namespace vrampool::service::data {

void PageBench::start(DataLoop& loop, const DataPlane::BenchAsk& what, DoneWith<DataPlane::BenchAnswer> done) {
  if (what.bytes == 0 || what.bytes % kPageBytes != 0 || what.bytes > kPagesPerMessageMax * kPageBytes ||
      what.count == 0)
    return reply<DataPlane::BenchAnswer>(
        loop.node(), done, error(VP_INVALID, "cannot measure {} reads of {} bytes", what.count, what.bytes));
  std::unique_ptr<PageBench> bench(new PageBench(loop, what, std::move(done)));
  if (const auto* segment = loop.find(what.segment); !what.echo && segment != nullptr)
    bench->pages_ = std::max<std::uint64_t>(1, segment->placement.bytes() / what.bytes);
  bench->answer_.ns.reserve(what.count);
  bench->cpu_at_start_ = platform::thread_cpu_time();
  PageBench& b = *bench;
  b.self_ = std::move(bench);
  b.next();
}

void PageBench::next() {
  PeerLink* peer = loop_.peer(what_.peer);
  if (peer == nullptr) return end(error(VP_UNREACHABLE, "member {} is not in the view", what_.peer.value));
  Ask ask;
  ask.header.kind = wire::DataKind::read;
  ask.header.flags = what_.echo ? wire::kDataEcho : 0;
  ask.header.request = loop_.next_read();
  ask.header.segment = what_.segment;
  ask.header.offset = what_.echo ? 0 : answer_.ns.size() % pages_ * what_.bytes;
  ask.header.length = what_.bytes;
  ask.asker = this;
  ask.deadline = platform::now() + loop_.node().options.fault_deadline;
  sent_ns_ = platform::monotonic_ns();
  if (auto s = peer->ask(ask); !s) end(s.error());
}

void PageBench::answered(std::uint64_t, const transport::Incoming& in) {
  if (in.header.kind != wire::DataKind::data) return end(failure_of(in));
  std::array<std::uint32_t, kPagesPerMessageMax> crcs;
  const auto sound = check_crcs(in, crcs);
  if (!sound || *sound != wire::pages_of(what_.bytes))
    return end(error(VP_CORRUPT, "a page arrived damaged from member {}", what_.peer.value));
  answer_.ns.push_back(static_cast<std::uint32_t>(platform::monotonic_ns() - sent_ns_));
  if (answer_.ns.size() < what_.count) return next();
  answer_.cpu_ns = (platform::thread_cpu_time() - cpu_at_start_).ns;
  end(std::move(answer_));
}

void PageBench::end(Result<DataPlane::BenchAnswer> result) {
  const auto self = std::move(self_);
  reply(loop_.node(), done_, std::move(result));
}

}  // namespace vrampool::service::data
