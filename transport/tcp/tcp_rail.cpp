#include "transport/tcp/tcp_rail.h"

#include <algorithm>

namespace vrampool::transport::tcp {

TcpRail::TcpRail(RailHandler& handler, bool tls) : handler_(handler) {
  traits_.kind = tls ? "tls" : "tcp";
  traits_.encrypted = tls;
  lanes_.reserve(kStreamsPerRailMax);
}
TcpRail::~TcpRail() = default;

Status TcpRail::add(UniqueFd fd, StreamOptions options) {
  if (lanes_.size() == kStreamsPerRailMax)
    return error(VP_BUSY, "already {} connections to {}", lanes_.size(), options.peer);
  VP_TRY(stream, DataStream::create(std::move(fd), std::move(options), *this));
  lanes_.push_back({std::move(stream), {}, 0});
  lanes_.back().asks.reserve(kAsksPerStreamMax);
  return {};
}

std::vector<DataStream*> TcpRail::streams() const {
  std::vector<DataStream*> all;
  for (const Lane& lane : lanes_) all.push_back(lane.stream.get());
  return all;
}

void TcpRail::sweep() {
  std::erase_if(lanes_, [](const Lane& lane) { return lane.stream->closed(); });
}

RailHealth TcpRail::health() const {
  const auto in = [&](auto state) { return std::count_if(lanes_.begin(), lanes_.end(), state); };
  const auto open = in([](const Lane& l) { return l.stream->open(); });
  const auto closed = in([](const Lane& l) { return l.stream->closed(); });
  if (open > 0) return closed > 0 ? RailHealth::sick : RailHealth::up;
  return closed == static_cast<std::ptrdiff_t>(lanes_.size()) && closed > 0 ? RailHealth::down : RailHealth::rising;
}

std::uint32_t TcpRail::credits() const {
  std::size_t room = 0;
  for (const Lane& lane : lanes_)
    if (lane.usable()) room += std::min(lane.stream->queue_room(), kAsksPerStreamMax - lane.asks.size());
  return static_cast<std::uint32_t>(room);
}

std::uint64_t TcpRail::outstanding_bytes() const {
  std::uint64_t bytes = 0;
  for (const Lane& lane : lanes_) bytes += lane.load();
  return bytes;
}

TcpRail::Lane* TcpRail::lightest(bool for_ask) {
  Lane* best = nullptr;
  for (Lane& lane : lanes_) {
    if (!lane.usable() || (for_ask && lane.asks.size() == kAsksPerStreamMax)) continue;
    if (best == nullptr || lane.load() < best->load()) best = &lane;
  }
  return best;
}

TcpRail::Lane& TcpRail::lane_of(const DataStream& stream) {
  const auto at = std::find_if(lanes_.begin(), lanes_.end(), [&](const Lane& l) { return l.stream.get() == &stream; });
  VP_ASSERT(at != lanes_.end());
  return *at;
}

bool TcpRail::send(const Outgoing& message) {
  Lane* lane = lightest(false);
  return lane != nullptr && lane->stream->send(message);
}

bool TcpRail::ask(const Outgoing& message, std::uint32_t bytes) {
  Lane* lane = lightest(true);
  if (lane == nullptr || !lane->stream->enqueue(message)) return false;
  lane->asks.push_back({message.header.request, bytes});
  lane->asked_bytes += bytes;
  lane->stream->flush();
  return true;
}

bool TcpRail::read_pages(wire::DataHeader header) {
  header.kind = wire::DataKind::read;
  return ask({header}, header.length);
}

bool TcpRail::write_pages(wire::DataHeader header, std::span<const std::byte> crc_table,
                          std::span<const std::byte> pages, std::uint64_t tag) {
  header.kind = wire::DataKind::write;
  header.length = static_cast<std::uint32_t>(pages.size());
  return ask({header, crc_table, pages, tag}, 0);
}

void TcpRail::divert(RequestNo request) {
  for (Lane& lane : lanes_) lane.stream->divert(request);
}

void TcpRail::answered(Lane& lane, RequestNo request) {
  const auto at = std::find_if(lane.asks.begin(), lane.asks.end(), [&](const Ask& a) { return a.request == request; });
  if (at == lane.asks.end()) return;
  lane.asked_bytes -= at->bytes;
  lane.asks.erase(at);
}

void TcpRail::on_open(DataStream&) { handler_.health_changed(health(), {VP_OK, {}}); }

void TcpRail::on_message(DataStream& stream, const Incoming& m) {
  answered(lane_of(stream), m.header.request);
  handler_.message(m);
}

void TcpRail::on_closed(DataStream& stream, const Error& why) {
  Lane& lane = lane_of(stream);
  lane.asks.clear();
  lane.asked_bytes = 0;
  handler_.health_changed(health(), why);
}

}  // namespace vrampool::transport::tcp
