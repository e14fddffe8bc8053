#include "client/link.h"

#include <poll.h>

#include <algorithm>
#include <cstring>

#include "platform/clock.h"
#include "wire/codec.h"

namespace vrampool::client {

namespace {

// How much is read ahead while a frame's length is not known yet.
constexpr std::size_t kReadBytes = 64 * 1024;

Status wait_readable(int fd, Instant until) {
  const std::int64_t left = (until - platform::now()).as_millis();
  if (left <= 0) return error(VP_TIMEOUT, "the daemon did not answer in time");
  pollfd p{fd, POLLIN, 0};
  ::poll(&p, 1, static_cast<int>(std::min<std::int64_t>(left, 60'000)));
  return {};
}

wire::LocalMessageT message_of(std::uint64_t call, wire::LocalBodyUnion body, std::size_t descriptors) {
  wire::LocalMessageT m;
  m.call = call;
  m.descriptors = static_cast<std::uint8_t>(descriptors);
  m.body = std::move(body);
  return m;
}

}  // namespace

std::vector<std::byte> Link::frame_of(const wire::LocalMessageT& message) {
  return wire::frame(wire::encode<wire::LocalMessage>(message));
}

Status Link::send(std::uint64_t call, wire::LocalBodyUnion body, std::span<const int> descriptors, Duration deadline) {
  return send_frame(frame_of(message_of(call, std::move(body), descriptors.size())), descriptors, deadline);
}

// Until `wanted` bytes are there; VP_TIMEOUT keeps what came so far.
Status Link::fill(std::size_t wanted, Instant until) {
  while (incoming_.size() < wanted) {
    const std::size_t had = incoming_.size();
    const std::size_t room = std::max(wanted - had, std::size_t{1});
    incoming_.resize(had + std::min(room, kReadBytes));
    platform::DescriptorList fresh;
    auto got = platform::receive_some(socket_.get(), std::span(incoming_).subspan(had), fresh);
    incoming_.resize(had + (got ? got->bytes : 0));
    if (!got) return got.take_error();
    for (UniqueFd& fd : fresh) arrived_.push_back(std::move(fd));
    if (arrived_.size() > kDescriptorsPerFrameMax) return error(VP_CORRUPT, "the daemon sent too many descriptors");
    if (got->closed) return error(VP_UNREACHABLE, "the daemon closed the connection");
    if (got->would_block) VP_CHECK(wait_readable(socket_.get(), until));
  }
  return {};
}

Result<Envelope> Link::receive(Duration deadline) {
  const Instant until = platform::now() + deadline;
  VP_CHECK(fill(4, until));
  VP_TRY(length, wire::frame_length(std::span<const std::byte, 4>(incoming_.data(), 4)));
  VP_CHECK(fill(4 + length, until));
  auto decoded = wire::decode<wire::LocalMessage>(std::span(incoming_).subspan(4), "the daemon");
  incoming_.clear();
  if (!decoded) return decoded.take_error();
  return take_envelope(std::move(*decoded));
}

Result<Envelope> Link::take_envelope(wire::LocalMessageT message) {
  if (arrived_.size() != message.descriptors) {
    return error(VP_CORRUPT, "the daemon announced {} descriptors and sent {}", message.descriptors, arrived_.size());
  }
  return Envelope{message.call, std::move(message.body), std::exchange(arrived_, {})};
}

Result<Envelope> attach(Link& link, const std::string& program, bool reattach, std::uint64_t secret,
                        Duration deadline) {
  wire::AttachT hello;
  hello.version_min = kLocalVersion;
  hello.version_max = kLocalVersion;
  hello.program = program.substr(0, kNameBytesMax);
  hello.reattach = reattach;
  hello.session_secret = secret;
  VP_CHECK(link.send(1, body_of(std::move(hello)), {}, deadline));
  for (;;) {
    VP_TRY(answer, link.receive(deadline));
    if (answer.call == 1) return std::move(answer);
  }
}

Result<UniqueFd> open_data(const std::string& path, const wire::AttachedT& session, bool bulk, Duration deadline) {
  VP_TRY(fd, connect_daemon({path}));
  Link link(std::move(fd));
  wire::OpenDataT request;
  request.client = session.client;
  request.session_secret = session.session_secret;
  request.bulk = bulk;
  VP_CHECK(link.send(1, body_of(std::move(request)), {}, deadline));
  VP_TRY(answer, link.receive(deadline));
  VP_CHECK(status_of(answer.body));
  return link.take();
}

Status status_of(const wire::LocalBodyUnion& body) {
  const wire::DoneT* done = body.AsDone();
  if (done == nullptr || done->status == VP_OK) return {};
  return Error{static_cast<vp_status>(done->status), done->message};
}

}  // namespace vrampool::client
