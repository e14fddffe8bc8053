#include "transport/fake/fake_link.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace vrampool::transport::fake {

class FakeLink::End final : public Rail {
 public:
  End(FakeLink& link, std::size_t side, RailHandler& handler) : link_(link), side_(side), handler(handler) {
    traits_.kind = "fake";
  }
  const RailTraits& traits() const override { return traits_; }
  RailHealth health() const override { return up ? RailHealth::up : RailHealth::down; }
  std::uint32_t credits() const override {
    return up && under_way < link_.trouble_.credits ? link_.trouble_.credits - under_way : 0;
  }
  std::uint64_t outstanding_bytes() const override { return bytes_under_way; }
  bool send(const Outgoing& m) override { return link_.launch(side_, m); }
  bool read_pages(wire::DataHeader h) override {
    h.kind = wire::DataKind::read;
    return send({h});
  }
  bool write_pages(wire::DataHeader h, std::span<const std::byte> crc_table, std::span<const std::byte> pages,
                   std::uint64_t tag) override {
    h.kind = wire::DataKind::write;
    h.length = static_cast<std::uint32_t>(pages.size());
    return send({h, crc_table, pages, tag});
  }
  void divert(RequestNo) override {}  // a body lands in one go

  void go_down(const Error& why) {
    if (!std::exchange(up, false)) return;
    handler.health_changed(RailHealth::down, why);
  }

 private:
  FakeLink& link_;
  std::size_t side_;
  RailTraits traits_;

 public:
  RailHandler& handler;
  bool up = true;
  std::uint32_t under_way = 0;
  std::uint64_t bytes_under_way = 0;
};

FakeLink::FakeLink(std::uint64_t seed, Trouble trouble, RailHandler& left, RailHandler& right)
    : seed_(seed), trouble_(trouble) {
  ends_[0] = std::make_unique<End>(*this, 0, left);
  ends_[1] = std::make_unique<End>(*this, 1, right);
}
FakeLink::~FakeLink() = default;
Rail& FakeLink::left() { return *ends_[0]; }
Rail& FakeLink::right() { return *ends_[1]; }

std::uint64_t FakeLink::random() {  // splitmix64 (S. Vigna, public domain)
  std::uint64_t z = (seed_ += 0x9e3779b97f4a7c15ull);
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ z >> 27) * 0x94d049bb133111ebull;
  return z ^ z >> 31;
}

bool FakeLink::chance(double p) { return static_cast<double>(random() >> 11) * 0x1p-53 < p; }

bool FakeLink::launch(std::size_t from, const Outgoing& m) {
  End& end = *ends_[from];
  if (end.credits() == 0) return false;
  ++stats_.sent;
  const bool lost = chance(trouble_.loss);
  const int copies = lost ? 0 : chance(trouble_.doubled) ? 2 : 1;
  stats_.lost += lost;
  stats_.doubled += copies == 2;
  for (int i = 0; i < copies; ++i) {
    Flying f{m.header, {m.side.begin(), m.side.end()}, {m.body.begin(), m.body.end()}, 1 - from, false};
    f.header.payload_bytes = static_cast<std::uint32_t>(m.side.size() + m.body.size());
    if (!f.body.empty() && chance(trouble_.damaged)) {
      f.body[random() % f.body.size()] ^= std::byte{1};
      ++stats_.damaged;
    }
    f.cut = chance(trouble_.cut);
    const auto spread =
        static_cast<std::uint64_t>(std::max<std::int64_t>(1, (trouble_.delay_max - trouble_.delay_min).ns));
    const Instant due = now_ + trouble_.delay_min + Duration{static_cast<std::int64_t>(random() % spread)};
    ++end.under_way;
    end.bytes_under_way += f.body.size();
    flying_.emplace(std::pair{due, ++order_}, std::move(f));
  }
  if (m.tag != 0) end.handler.released(m.tag, true);
  return true;
}

bool FakeLink::deliver(Instant now) {
  while (!flying_.empty() && flying_.begin()->first.first <= now) {
    now_ = std::max(now_, flying_.begin()->first.first);
    auto node = flying_.extract(flying_.begin());
    End& sender = *ends_[1 - node.mapped().to];
    --sender.under_way;
    sender.bytes_under_way -= node.mapped().body.size();
    land(node.mapped());
  }
  now_ = std::max(now_, now);
  return !flying_.empty();
}

void FakeLink::land(Flying& f) {
  RailHandler& handler = ends_[f.to]->handler;
  std::span<std::byte> landing;
  if (!f.body.empty()) landing = handler.landing(f.header);
  const bool discarded = !f.body.empty() && landing.empty();
  const std::size_t bytes = f.cut ? landing.size() / 2 : landing.size();
  if (bytes > 0) std::memcpy(landing.data(), f.body.data(), bytes);
  if (f.cut) {
    ++stats_.cut;
    return sever();
  }
  ++stats_.delivered;
  stats_.discarded += discarded;
  handler.message({f.header, f.side, landing, discarded});
}

Instant FakeLink::next() const {
  return flying_.empty() ? Instant{std::numeric_limits<std::int64_t>::max()} : flying_.begin()->first.first;
}

void FakeLink::sever() {
  flying_.clear();
  for (auto& end : ends_) end->under_way = 0, end->bytes_under_way = 0;
  for (auto& end : ends_) end->go_down(error(VP_UNREACHABLE, "the link was cut"));
}

}  // namespace vrampool::transport::fake
