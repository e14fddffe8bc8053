#include "client/session.h"

#include <algorithm>
#include <cstring>

#include "platform/clock.h"

namespace vrampool::client {

Session::Session(SessionOptions options)
    : options_(std::move(options)),
      pid_(::getpid()),
      page_("vp-page", kPageRequestsMax, [this] { bell_->ring(); }),
      bulk_("vp-bulk", kBulkRequestsMax, [this] { bell_->ring(); }) {}

Session::~Session() { close(); }

Result<std::shared_ptr<Session>> Session::connect(const SessionOptions& options) {
  std::shared_ptr<Session> s(new Session(options));
  VP_TRY(bell, platform::Doorbell::create());
  s->bell_.emplace(std::move(bell));
  VP_CHECK(s->first_attach());
  s->page_.start_thread();
  s->bulk_.start_thread();
  s->service_ = std::thread([raw = s.get()] { raw->run_service(); });
  return s;
}

Status Session::first_attach() {
  VP_TRY(fd, connect_daemon(socket_candidates(options_.socket_path), &place_));
  auto link = std::make_unique<Link>(std::move(fd));
  VP_TRY(answer, attach(*link, options_.program, false, 0, options_.call_deadline));
  VP_TRY(attached, expect<wire::AttachedT>(std::move(answer.body)));
  if (attached.pool.empty()) {
    return error(VP_NOT_FOUND, "this machine is in no pool: run `vrampool init` or `vrampool join` first");
  }
  if (attached.has_fault_device && !answer.descriptors.empty()) fault_device_ = std::move(answer.descriptors.back());
  secret_ = attached.session_secret;
  VP_CHECK(reopen_channels(attached, true));
  control_.connected(std::move(link), std::move(attached));
  return {};
}

// Order: no callback and no service thread may run while the memory goes.
void Session::close() {
  if (closing_.exchange(true)) return;
  if (bell_) bell_->ring();
  if (service_.joinable()) service_.join();
  control_.close();
  page_.stop();
  bulk_.stop();
  notifier_.stop();
  for (const auto& view : views()) view->close();
  const std::lock_guard hold(mutex_);
  views_.clear();
  segments_.clear();
}

Status Session::usable() const {
  if (is_child()) return error(VP_STALE, "this process was forked from the one that connected: call vp_after_fork()");
  if (closing_) return error(VP_CANCELLED, "the session was closed");
  return {};
}

Channel& Session::channel_for(const Move& move) {
  return move.from != nullptr || move.bytes > kPageChannelBytesMax ? bulk_ : page_;
}

Status Session::run(const Move& move) {
  if (in_completion()) return error(VP_BUSY, "a callback must not block: use vp_read_async there");
  auto transfer = std::make_shared<Transfer>();
  transfer->patience = options_.call_deadline;
  Channel& channel = channel_for(move);
  VP_CHECK(channel.start(transfer, move));
  if (!channel.wait_to_end(*transfer)) {
    const bool away = !control_.is_connected();
    channel.give_up(
        *transfer, away ? VP_UNREACHABLE : VP_TIMEOUT,
        away ? "the daemon is away and did not come back: is vrampoold running?" : "the daemon did not answer in time");
  }
  if (transfer->status == VP_OK) return {};
  return Error{transfer->status, transfer->message};
}

Status Session::write_pages(Segment& segment, std::uint64_t offset, const std::byte* from, std::uint64_t bytes) {
  const wire::RecordT& r = segment.record();
  VP_CHECK(run({r.id, r.layout_version, r.create_token, offset, bytes, nullptr, from}));
  segment.note_whole_pages(offset, bytes);
  return {};
}

Status Session::add_view(const std::shared_ptr<View>& view) {
  const std::lock_guard hold(mutex_);
  if (closing_) return error(VP_CANCELLED, "the session was closed");
  if (views_.size() >= kViewsPerSessionMax) {
    return error(VP_NO_SPACE, "{} views are mapped, the most there can be: unmap some", views_.size());
  }
  views_.push_back(view);
  return {};
}

void Session::remove_view(const View& view) {
  const std::lock_guard hold(mutex_);
  std::erase_if(views_, [&](const auto& v) { return v.get() == &view; });
}

void Session::add_segment(const std::shared_ptr<Segment>& segment) {
  const std::lock_guard hold(mutex_);
  std::erase_if(segments_, [](const auto& s) { return s.expired(); });
  segments_.push_back(segment);
}

std::vector<std::shared_ptr<View>> Session::views() const {
  const std::lock_guard hold(mutex_);
  return views_;
}

std::vector<std::shared_ptr<Segment>> Session::segments() const {
  const std::lock_guard hold(mutex_);
  std::vector<std::shared_ptr<Segment>> out;
  for (const auto& s : segments_) {
    if (auto open = s.lock()) out.push_back(std::move(open));
  }
  return out;
}

std::shared_ptr<Segment> Session::segment_at(std::uint64_t address) const {
  for (const auto& s : segments()) {
    const wire::RecordT& r = s->record();
    if (address >= r.address && address - r.address < r.bytes) return s;
  }
  return nullptr;
}

Duration Session::fault_deadline() const {
  if (options_.fault_deadline.ns > 0) return options_.fault_deadline;
  const std::uint32_t said = control_.attached().fault_deadline_ms;
  return Duration::millis(said > 0 ? said : kFaultDeadlineMs);
}

void Session::status(vp_session_info& info) const {
  const wire::AttachedT attached = control_.attached();
  info.connected = control_.is_connected() ? 1 : 0;
  info.member = attached.member;
  info.fault_deadline_ms = static_cast<std::uint32_t>(fault_deadline().as_millis());
  info.reconnects = reconnects_;
  for (const auto& view : views()) info.pages_lost += view->pages_poisoned();
  std::strncpy(info.pool, attached.pool.c_str(), sizeof info.pool - 1);
  std::strncpy(info.fault_source, attached.fault_source.c_str(), sizeof info.fault_source - 1);
}

void Session::close_sockets_in_child() {
  for (const int fd : {control_.fd(), page_.fd_for_child(), bulk_.fd_for_child()}) {
    if (fd >= 0) ::close(fd);
  }
}

}  // namespace vrampool::client
