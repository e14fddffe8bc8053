// The session's service thread: takes in answers and losses, comes back to a restarted daemon with everything the
// application holds, and poisons lazy views when none comes back in time.
#include <poll.h>

#include <algorithm>
#include <array>

#include "client/session.h"
#include "platform/clock.h"
#include "platform/process.h"

namespace vrampool::client {

namespace {

constexpr std::uint64_t kDirectCall = 2;  // below Control's numbers
constexpr const char* kNoDaemon = "no daemon came back in time: missing pages read as 0xFF; map again once it runs";

bool means_removed(vp_status s) { return s == VP_STALE || s == VP_NOT_FOUND || s == VP_DENIED; }

}  // namespace

void Session::run_service() {
  platform::name_this_thread("vp-service");
  while (!closing_) {
    serve_events();
    if (closing_) return;
    if (!control_.is_connected())
      try_reconnect();
    else if (page_.down() || bulk_.down())
      static_cast<void>(reopen_channels(control_.attached(), false));
    poison_if_overdue();
    page_.expire(platform::now());
    bulk_.expire(platform::now());
  }
}

void Session::serve_events() {
  const bool connected = control_.is_connected();
  std::array<pollfd, 2> wait{{{bell_->fd(), POLLIN, 0}, {control_.fd(), POLLIN, 0}}};
  const Duration tick = connected ? kServiceTick : kReconnectEvery;
  ::poll(wait.data(), connected ? 2 : 1, static_cast<int>(tick.as_millis()));
  bell_->drain();
  if (!connected || wait[1].revents == 0) return;
  auto unasked = control_.receive();
  if (!unasked) return daemon_lost();
  for (Envelope& message : *unasked) take_unasked(std::move(message));
}

void Session::take_unasked(Envelope message) {
  const wire::LossEventT* event = message.body.AsLossEvent();
  if (event == nullptr) return;
  for (const auto& view : views()) {
    if (view->is_region(event->view)) notifier_.push(view->lost(*event));
  }
}

void Session::daemon_lost() {
  control_.lost();
  away_since_ = platform::now();
  poisoned_ = false;
}

void Session::try_reconnect() {
  auto fd = connect_daemon({place_});
  if (!fd) return;
  auto link = std::make_unique<Link>(std::move(*fd));
  auto answer = attach(*link, options_.program, true, secret_, kAttachDeadline);
  if (!answer) return;
  auto attached = expect<wire::AttachedT>(std::move(answer->body));
  if (!attached || attached->pool.empty()) return;
  secret_ = attached->session_secret;
  if (!reattach(*link, *attached)) return;
  control_.connected(std::move(link), std::move(*attached));
  ++reconnects_;
}

// Views first: threads wait in them.
Status Session::reattach(Link& link, const wire::AttachedT& attached) {
  VP_CHECK(reattach_segments(link));
  VP_CHECK(reattach_views(link));
  return reopen_channels(attached, true);
}

Status Session::reattach_segments(Link& link) {
  for (const auto& segment : segments()) {
    if (segment->gone()) continue;
    wire::OpenSegmentT request;
    request.id = segment->id();
    VP_TRY(answer, ask_directly(link, body_of(std::move(request))));
    const Status opened = status_of(answer.body);
    if (!opened && !means_removed(opened.error().code)) return opened;  // not ready yet
    if (!opened) segment->set_gone();
    for (const PinnedRange& pin : segment->pins()) {
      wire::PinRangeT again;
      again.id = segment->id();
      again.offset = pin.offset;
      again.bytes = pin.bytes;
      VP_CHECK(link.send(kDirectCall + 1, body_of(std::move(again)), {}, kAttachDeadline));  // nobody waits for it
    }
  }
  return {};
}

Status Session::reattach_views(Link& link) {
  Status broken;
  for (const auto& view : views()) {
    reattach_view(link, view, broken);
    if (!broken) return broken;
  }
  return {};
}

void Session::reattach_view(Link& link, const std::shared_ptr<View>& view, Status& broken) {
  for (std::size_t i = 0; i < view->regions(); ++i) {
    wire::AttachViewT request;
    platform::AttachDescriptors descriptors;
    if (!view->attach_request(i, true, request, descriptors)) continue;
    std::array<int, 2> raw{};
    for (std::size_t d = 0; d < descriptors.size(); ++d) raw[d] = descriptors[d].get();
    auto answer = ask_directly(link, body_of(std::move(request)), std::span(raw).first(descriptors.size()));
    if (!answer) {
      broken = answer.take_error();
      return;
    }
    const Status taken = status_of(answer->body);
    if (taken || descriptors.empty()) continue;  // nobody waits in memory that is all here
    if (means_removed(taken.error().code))
      give_up_view(view, taken.error());
    else
      broken = taken;  // not ready yet
  }
}

// The daemon is back but cannot serve this view: its segment went meanwhile.
void Session::give_up_view(const std::shared_ptr<View>& view, const Error& why) {
  LossNote note;
  if (view->poison(means_removed(why.code) ? VP_LOST : why.code, why.message.c_str(), note)) notifier_.push(note);
}

Status Session::reopen_channels(const wire::AttachedT& attached, bool all) {
  for (Channel* channel : {&page_, &bulk_}) {
    if (!all && !channel->down()) continue;
    VP_TRY(fd, open_data(place_, attached, channel == &bulk_, kAttachDeadline));
    VP_CHECK(channel->adopt(std::move(fd)));
  }
  return {};
}

void Session::poison_if_overdue() {
  if (control_.is_connected() || poisoned_ || platform::now() - away_since_ < fault_deadline()) return;
  poisoned_ = true;
  for (const auto& view : views()) {
    LossNote note;
    if (view->poison(VP_UNREACHABLE, kNoDaemon, note)) notifier_.push(note);
  }
}

// Before the link is everybody's: unasked messages count already.
Result<Envelope> Session::ask_directly(Link& link, wire::LocalBodyUnion body, std::span<const int> descriptors) {
  VP_CHECK(link.send(kDirectCall, std::move(body), descriptors, kAttachDeadline));
  for (;;) {
    VP_TRY(answer, link.receive(kAttachDeadline));
    if (answer.call == kDirectCall) return std::move(answer);
    if (answer.call == 0) take_unasked(std::move(answer));
  }
}

}  // namespace vrampool::client
