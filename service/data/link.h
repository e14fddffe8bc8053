// A data connection that lives on a loop: the stream, its place in the poller, and a landing for what arrives.
#pragma once

#include <memory>
#include <span>

#include "service/data/buffers.h"
#include "service/data/event_loop.h"
#include "transport/data_stream.h"

namespace vrampool::service::data {

class DataLoop;

// Threads: the loop's. Ownership: the loop owns links; a dead one is destroyed at the loop's next tick, never inside
// its own events.
class Link : public Watched, public transport::StreamHandler {
 public:
  explicit Link(DataLoop& loop) : loop_(&loop) {}
  ~Link() override;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  Status start(UniqueFd, transport::StreamOptions);
  // False: not open, or its queue is full; nothing was taken.
  bool send(const transport::Outgoing&);
  void close(Error why);
  bool dead() const { return stream_ == nullptr || stream_->closed(); }
  // Nothing will come of it any more.
  virtual bool finished() const { return dead(); }
  bool open() const { return stream_ != nullptr && stream_->open(); }

  // From one loop to another: detach on the old thread, attach on the new one.
  void detach();
  Status attach(DataLoop&);

 protected:
  void on_event(const platform::PollEvent&) override;
  // After each batch of events, outside the stream's methods.
  virtual void after_event() {}
  void drop_stream();

  DataLoop* loop_;
  std::unique_ptr<transport::DataStream> stream_;

 private:
  void watch_what_it_wants();

  EventLoop::Token token_ = 0;
  bool watched_ = false;
  bool watches_write_ = false;
  transport::StreamStats counted_{};
};

}  // namespace vrampool::service::data
