// Frames and descriptors over a non-blocking unix socket.
#include "service/local_connection.h"

#include <algorithm>

#include "wire/codec.h"

namespace vrampool::service {
namespace {

constexpr std::size_t kReadChunk = 256 * 1024;

}  // namespace

LocalConnection::LocalConnection(Loop& loop, UniqueFd fd, OnFrame on_frame, OnClosed on_closed)
    : loop_(loop), fd_(std::move(fd)), on_frame_(std::move(on_frame)), on_closed_(std::move(on_closed)) {
  watch_ = loop_.watch(
      fd_.get(), [this] { readable(); }, [this] { writable(); });
}

void LocalConnection::close(const std::string& why) {
  if (!fd_) return;
  watch_.reset();
  fd_.reset();
  on_closed_(why);
}

void LocalConnection::readable() {
  const std::size_t had = in_.size();
  in_.resize(had + kReadChunk);
  platform::DescriptorList descriptors;
  const auto got = platform::receive_some(fd_.get(), std::span(in_).subspan(had), descriptors);
  in_.resize(had + (got ? got->bytes : 0));
  for (UniqueFd& d : descriptors) arrived_.push_back(std::move(d));
  if (!got) return close(got.error().message);
  if (arrived_.size() > kLocalDescriptorsMax) return close("it sent descriptors that no message names");
  while (fd_ && take_frame()) {
  }
  if (fd_ && got->closed) close("it closed the connection");
}

bool LocalConnection::take_frame() {
  if (in_.size() < 4) return false;
  const auto length = wire::frame_length(std::span<const std::byte, 4>(in_.data(), 4));
  if (!length) return close(length.error().message), false;
  if (in_.size() < 4 + std::size_t{*length}) {
    in_.reserve(4 + std::size_t{*length} + kReadChunk);
    return false;
  }
  auto message = wire::decode<wire::LocalMessage>(std::span(in_).subspan(4, *length), "local message");
  in_.erase(in_.begin(), in_.begin() + 4 + static_cast<std::ptrdiff_t>(*length));
  if (!message) return close(message.error().message), false;
  if (message->descriptors > arrived_.size()) return close("a message names descriptors that did not come"), false;
  LocalFrame frame{std::move(*message), {}};
  const auto end = arrived_.begin() + frame.message.descriptors;
  std::move(arrived_.begin(), end, std::back_inserter(frame.descriptors));
  arrived_.erase(arrived_.begin(), end);
  on_frame_(std::move(frame));
  return true;
}

void LocalConnection::send(const wire::LocalMessageT& message, std::vector<UniqueFd> descriptors) {
  if (!fd_) return;
  Outgoing o;
  o.bytes = wire::frame(wire::encode<wire::LocalMessage>(message));
  o.descriptors = std::move(descriptors);
  backlog_ += o.bytes.size();
  if (backlog_ > kLocalBacklogBytesMax) return close("it does not read its answers");
  out_.push_back(std::move(o));
  writable();
}

// Descriptors travel beside the first bytes of a send; more than fit beside one go beside the next.
Result<bool> LocalConnection::send_front() {
  Outgoing& o = out_.front();
  std::vector<int> beside;
  for (std::size_t i = o.descriptors_sent; i < o.descriptors.size() && beside.size() < kDescriptorsPerMessageMax; ++i)
    beside.push_back(o.descriptors[i].get());
  std::span<const std::byte> rest = std::span(o.bytes).subspan(o.sent);
  // A byte must be left for every group of descriptors that still has to go.
  if (o.descriptors_sent + beside.size() < o.descriptors.size())
    rest = rest.first(std::min<std::size_t>(rest.size(), 1));
  VP_TRY(sent, platform::send_some(fd_.get(), rest, beside));
  if (sent == 0) return false;
  o.sent += sent;
  o.descriptors_sent += beside.size();
  if (o.sent < o.bytes.size()) return true;
  backlog_ -= std::min(backlog_, o.bytes.size());
  out_.pop_front();
  return true;
}

void LocalConnection::writable() {
  while (fd_ && !out_.empty()) {
    const Result<bool> moved = send_front();
    if (!moved)
      return loop_.post([this, why = moved.error().message, alive = std::weak_ptr<bool>(alive_)] {
        if (alive.lock()) close(why);
      });
    if (!*moved) break;
  }
  if (watch_) watch_->want_write(!out_.empty());
}

UniqueFd LocalConnection::take() {
  if (!out_.empty() || !in_.empty()) return {};
  watch_.reset();
  return std::move(fd_);
}

}  // namespace vrampool::service
