// A session: the control socket, two data channels, the views and segments that must outlive a daemon, and the thread
// that watches over them.
//
// Threads: any, but for what is marked. Ownership: shared by its handle and everything opened through it; close() ends
// it.
#pragma once

#include <unistd.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "client/channel.h"
#include "client/control.h"
#include "client/notifier.h"
#include "client/segment.h"
#include "client/view.h"
#include "platform/poller.h"

namespace vrampool::client {

struct SessionOptions {
  std::string socket_path;
  std::string program;
  Duration call_deadline = Duration::millis(kControlCallDeadlineMs);
  Duration fault_deadline{};  // 0: the daemon's
};

class Session : public std::enable_shared_from_this<Session> {
 public:
  static Result<std::shared_ptr<Session>> connect(const SessionOptions& options);
  ~Session();
  void close();

  // ---- checks of every call ----
  // VP_STALE in a forked child, VP_CANCELLED once closed.
  Status usable() const;
  bool is_child() const { return ::getpid() != pid_; }
  const SessionOptions& options() const { return options_; }

  // ---- calls to the daemon ----
  template <class Reply, class Request>
  Result<Reply> ask(Request request, CallOptions call) {
    VP_TRY(answer, control_.call(body_of(std::move(request)), call));
    return expect<Reply>(std::move(answer.body));
  }
  Result<Envelope> ask_envelope(wire::LocalBodyUnion body, const CallOptions& call) {
    return control_.call(std::move(body), call);
  }
  CallOptions repeatable() const { return {options_.call_deadline, options_.call_deadline, true, {}}; }
  CallOptions once() const { return {options_.call_deadline, options_.call_deadline, false, {}}; }
  CallOptions patient() const { return {kNoDeadline, options_.call_deadline, true, {}}; }
  wire::AttachedT attached() const { return control_.attached(); }
  int fault_device() const { return fault_device_.get(); }

  // ---- data ----
  Channel& channel_for(const Move& move);
  Status run(const Move& move);
  Status write_pages(Segment& segment, std::uint64_t offset, const std::byte* from, std::uint64_t bytes);

  // ---- what must outlive a daemon ----
  Status add_view(const std::shared_ptr<View>& view);
  void remove_view(const View& view);
  void add_segment(const std::shared_ptr<Segment>& segment);
  // The open segment that holds a pool address.
  std::shared_ptr<Segment> segment_at(std::uint64_t address) const;
  void set_callback(vp_error_callback callback, void* user) { notifier_.set(callback, user); }
  void status(vp_session_info& info) const;

  // For a forked child: the parent's sockets, by number.
  void close_sockets_in_child();

 private:
  explicit Session(SessionOptions options);
  Status first_attach();
  void run_service();

  // ---- the service thread ----
  void serve_events();
  void take_unasked(Envelope message);
  void daemon_lost();
  void try_reconnect();
  Status reattach(Link& link, const wire::AttachedT& attached);
  Status reattach_segments(Link& link);
  Status reattach_views(Link& link);
  void reattach_view(Link& link, const std::shared_ptr<View>& view, Status& broken);
  Status reopen_channels(const wire::AttachedT& attached, bool all);
  void poison_if_overdue();
  void give_up_view(const std::shared_ptr<View>& view, const Error& why);
  Result<Envelope> ask_directly(Link& link, wire::LocalBodyUnion body, std::span<const int> descriptors = {});
  std::vector<std::shared_ptr<View>> views() const;
  std::vector<std::shared_ptr<Segment>> segments() const;
  Duration fault_deadline() const;

  const SessionOptions options_;
  const pid_t pid_;
  std::string place_;  // the socket that answered: a restarted daemon is looked for there and nowhere else
  UniqueFd fault_device_;
  Control control_;
  Notifier notifier_;
  std::optional<platform::Doorbell> bell_;
  Channel page_, bulk_;

  mutable std::mutex mutex_;  // views and segments
  std::vector<std::shared_ptr<View>> views_;
  std::vector<std::weak_ptr<Segment>> segments_;

  std::atomic<std::uint64_t> secret_{0};
  std::atomic<std::uint64_t> reconnects_{0};
  std::atomic<bool> closing_{false};
  Instant away_since_{};   // service thread
  bool poisoned_ = false;  // service thread: the deadline of this absence passed
  std::thread service_;
};

}  // namespace vrampool::client
