// DataStream: one connection that speaks packed data messages over TCP, TLS over TCP, or a unix socket.
//
// Receiving: the header comes first, then the handler says where the body lands, and the bytes are scattered
// straight there (one-copy rule; TLS copies once more inside OpenSSL). Sending: a bounded ring of messages with
// borrowed bodies, gathered into few system calls; under TLS header and crc table share a record and every
// 16 KiB of body is exactly one record.
//
// Threads: one, the owner's loop. Blocking: never. Ownership: owns its descriptor; borrows handler and bodies.
// Errors: a damaged header, a size beyond the limits, a broken connection or a refused greeting close the stream
// (on_closed once, every borrowed body released first). Deadlines are the owner's.
//
// Driving it: after every event and after send(), watch fd() for reading, and for writing while wants_write().
// Level-triggered pollers are enough as long as on_readable() is called again while it answers `more`.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "transport/message.h"
#include "transport/tls.h"

namespace vrampool::transport {

class DataStream;
struct ReadPlan;

// The owner's side of a stream. Calls come from inside DataStream's methods, on the owner's thread. A handler may
// send() and divert() from inside a call; it must not destroy the stream there.
class StreamHandler {
 public:
  virtual ~StreamHandler() = default;
  // Accepting side only: judge a greeting. Default: refuse.
  virtual Status on_hello(DataStream&, const wire::DataHeader& hello, const wire::Ticket& ticket);
  // The connection is ready for messages (after TLS and greeting).
  virtual void on_open(DataStream&) {}
  // A message with a body begins. Answer exactly body_bytes_of(header) bytes that stay put until on_message(),
  // divert() or on_closed(); or an empty span to have the body thrown away.
  virtual std::span<std::byte> on_header(DataStream&, const wire::DataHeader&) { return {}; }
  virtual void on_message(DataStream&, const Incoming&) = 0;
  // The body given with `tag` is no longer used: sent (true) or given up because the stream closed (false).
  virtual void on_released(DataStream&, std::uint64_t tag, bool sent) {
    (void)tag;
    (void)sent;
  }
  virtual void on_closed(DataStream&, const Error& why) = 0;
};

enum class Greeting : std::uint8_t {
  none,   // unix socket between client and daemon: open at once
  offer,  // connecting side: sends hello with `hello` and `ticket`
  judge,  // accepting side: waits for hello, asks on_hello()
};

struct StreamOptions {
  Greeting greeting = Greeting::none;
  wire::DataHeader hello{};  // offer: source, destination and epoch of the hello
  wire::Ticket ticket{};
  const TlsContext* tls = nullptr;     // set: TLS first (client side when offering, server side when judging)
  bool connecting = false;             // the descriptor's connect() may still be under way
  std::uint32_t send_queue_max = 128;  // messages; full means send() refuses
  std::string peer = "peer";           // for error messages
};

struct StreamStats {
  std::uint64_t bytes_in = 0, bytes_out = 0;  // of messages, TLS overhead not counted
  std::uint64_t messages_in = 0, messages_out = 0;
  std::uint64_t discarded = 0;  // bodies thrown away
  std::uint64_t read_calls = 0, write_calls = 0;
};

class DataStream {
 public:
  // The descriptor must be nonblocking. Errors: TLS state could not be made.
  static Result<std::unique_ptr<DataStream>> create(UniqueFd fd, StreamOptions, StreamHandler&);
  ~DataStream();  // releases what it borrowed; no on_closed

  int fd() const { return fd_.get(); }
  bool open() const { return phase_ == Phase::open; }
  bool closed() const { return phase_ == Phase::closed; }
  bool wants_write() const;
  const StreamStats& stats() const { return stats_; }
  const std::string& peer() const { return options_.peer; }

  enum class Progress : std::uint8_t { idle, more, closed };
  // Reads until the socket is drained or a fair share was done (`more`: call again soon).
  Progress on_readable();
  Progress on_writable();

  // Puts a message in the queue and writes what the socket takes at once. False: not open, or the queue is full;
  // then nothing was taken. Greetings and answers to them are internal.
  bool send(const Outgoing&);
  // As send() but leaves writing to flush(): for several messages in one system call.
  bool enqueue(const Outgoing&);
  void flush();
  std::size_t queued() const { return queue_size_; }
  std::size_t queue_room() const { return options_.send_queue_max - queue_size_; }
  std::uint64_t queued_bytes() const { return queued_bytes_; }

  // The next message is probably the answer to `request` with a body for `landing`: header, crc table and body
  // are then read in one call. A wrong guess is repaired (the landing may hold foreign bytes until its own
  // answer comes). Forgotten after one message. `landing` must stay put until then or until divert(request).
  void expect(RequestNo request, std::span<std::byte> landing);

  // `request` is no longer current: bytes of an answer to it that is being received now go to scratch from here
  // on, and an expected landing is forgotten. After this no byte is written into that landing any more.
  void divert(RequestNo request);

  // Closes now: releases bodies, then on_closed(why).
  void close(Error why);

 private:
  enum class Phase : std::uint8_t { connecting, tls, greeting, open, closed };
  struct Slot {  // a queued message: header and side stand together
    std::array<std::byte, wire::kDataHeaderBytes + kSideBytesMax> head;
    std::uint32_t head_bytes = 0;
    std::span<const std::byte> body;
    std::uint64_t tag = 0;
    std::uint64_t done = 0;  // bytes of head and body written
    std::uint64_t bytes() const { return head_bytes + body.size(); }
    std::span<const std::byte> head_rest() const;
    std::span<const std::byte> body_rest() const;
  };
  struct Receive;  // the message being received
  struct Pulled {
    std::size_t bytes = 0;
    bool drained = false;
  };

  DataStream(UniqueFd fd, StreamOptions, StreamHandler&);
  Slot& slot(std::size_t i) { return queue_[(queue_head_ + i) % queue_.size()]; }
  // Sending.
  bool put(const Outgoing&);
  void pop_front(bool sent);
  void count_sent(std::size_t bytes);
  void write_plain();
  void write_tls();
  // Set-up: each answers whether the next phase may begin now.
  void advance();
  bool pass_connecting();
  bool pass_tls();
  void begin_greeting();
  void become_open();
  void handle_greeting(const Incoming&);
  void judge_hello(const Incoming&);
  void fail_io(int errno_value, const char* what);
  void close_on_eof();
  // Receiving.
  Progress read_some();
  void plan(ReadPlan&, bool from_socket);
  Pulled pull_plain();
  Pulled pull_spill();
  Pulled pull_tls();
  void account(std::size_t bytes, const ReadPlan&);
  bool begin_message();
  void choose_landing();
  void discard_rest();
  bool guess_holds(const ReadPlan&);
  void spill_rest(std::size_t& bytes, const ReadPlan&);
  void finish_message();

  UniqueFd fd_;
  StreamOptions options_;
  StreamHandler& handler_;
  Phase phase_ = Phase::connecting;
  std::optional<TlsSession> tls_;
  bool tls_wants_write_ = false;
  bool writing_ = false;
  bool greeted_ = false;
  std::vector<Slot> queue_;
  std::size_t queue_head_ = 0;
  std::size_t queue_size_ = 0;
  std::uint64_t queued_bytes_ = 0;
  std::unique_ptr<Receive> in_;
  StreamStats stats_;
};

}  // namespace vrampool::transport
