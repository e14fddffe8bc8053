// A data connection to the daemon with many requests in flight, shared by all threads of a session.
//
// Whoever waits for an answer receives for everybody (one at a time leads, the others sleep), so a single reader pays
// no thread switch; a thread of the channel leads while only asynchronous transfers run. When the connection breaks,
// requests stay and are sent again on the next one: reads, and writes of whole pages, may happen twice.
//
// Threads: any. Ownership: buffers belong to the channel from start() until the transfer is done.
// Errors: in the transfer. Blocking: start() while the window is full and while a write does not fit the socket.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "client/limits.h"
#include "client/transfer.h"
#include "platform/clock.h"
#include "transport/data_stream.h"

namespace vrampool::client {

class Channel final : private transport::StreamHandler {
 public:
  // `on_down` is called (any thread, under the lock: it may only ring a bell) when the connection broke.
  Channel(const char* name, std::size_t window, std::function<void()> on_down);
  ~Channel() override;

  void start_thread();
  // A fresh connection; what is in flight is sent again.
  Status adopt(UniqueFd fd);
  bool down() const;
  // Fails everything with VP_CANCELLED and ends the thread. Nothing may be started afterwards.
  void stop();

  // Cuts `move` into requests and sends them. From a completion it never blocks (VP_BUSY instead).
  Status start(const std::shared_ptr<Transfer>& transfer, const Move& move);
  // Waits for the end, at most until `until`; true when done. Helps to receive meanwhile.
  bool wait(Transfer& transfer, Instant until);
  // Waits for the end as long as there is progress; true when done.
  bool wait_to_end(Transfer& transfer);
  // Ends a transfer that is not done: after this its buffer is the caller's again.
  void give_up(Transfer& transfer, vp_status status, const char* message);
  // Ends asynchronous transfers whose deadline passed.
  void expire(Instant now);

  // A raw number to close in a forked child.
  int fd_for_child() const { return raw_fd_.load(); }

 private:
  struct Request {
    std::shared_ptr<Transfer> transfer;
    wire::DataHeader header;
    std::span<std::byte> into;
    std::span<const std::byte> from;
    bool body_borrowed = false;  // the stream still holds `from`
    bool refused = false;        // the daemon was busy: to be sent again
  };
  using Lock = std::unique_lock<std::mutex>;

  std::span<std::byte> on_header(transport::DataStream&, const wire::DataHeader&) override;
  void on_message(transport::DataStream&, const transport::Incoming&) override;
  void on_released(transport::DataStream&, std::uint64_t tag, bool sent) override;
  void on_closed(transport::DataStream&, const Error& why) override;

  bool usable() const { return stream_ != nullptr && !stream_->closed(); }
  std::size_t in_flight() const { return slots_.size() - free_.size(); }
  Status make_room(Lock&, const Transfer&, std::size_t requests);
  void submit(Lock&, const std::shared_ptr<Transfer>&, const Move&, std::uint64_t done, std::uint64_t length);
  void send(std::size_t slot);
  void flush(Lock&, Instant until);
  void resend_refused(std::size_t most);
  Request* request_of(RequestNo);
  void finish_request(Request&, vp_status status, std::string message);
  void settle(const std::shared_ptr<Transfer>&);
  void abandon(Transfer&, vp_status status, const char* message);
  void guess_next_answer();
  // Waits until done(); leads when nobody else does. False when `until` passed.
  template <class Done>
  bool help(Lock& lock, Instant until, Done&& done) {
    while (!done()) {
      if (platform::now() >= until) return false;
      if (leading_ || !usable()) {
        changed_.wait_for(lock, std::chrono::milliseconds(poll_ms(until)));
        continue;
      }
      leading_ = true;
      while (!done() && usable() && platform::now() < until) receive_once(lock, until);
      leading_ = false;
      changed_.notify_all();
    }
    return true;
  }
  static int poll_ms(Instant until);
  void receive_once(Lock&, Instant until);
  void run_completions(Lock&);
  void run();

  const char* name_;
  const std::function<void()> on_down_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<transport::DataStream> stream_;
  std::atomic<int> raw_fd_{-1};
  std::vector<Request> slots_;
  std::vector<std::size_t> free_;
  std::vector<std::shared_ptr<Transfer>> completed_;  // completions to run outside the lock
  std::uint64_t requests_ = 0;
  std::size_t last_sent_ = 0;
  std::size_t refused_ = 0;
  std::size_t asynchronous_ = 0;  // requests in flight of asynchronous transfers
  bool leading_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

// True inside a completion or an error callback of the calling thread.
bool in_completion();
// Marks the calling thread while a callback of the application runs.
class CallbackScope {
 public:
  CallbackScope();
  ~CallbackScope();
};

}  // namespace vrampool::client
