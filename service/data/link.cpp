#include "service/data/link.h"

#include "service/data/data_loop.h"
#include "service/data/node.h"

namespace vrampool::service::data {

Link::~Link() { drop_stream(); }

void Link::drop_stream() {
  detach();
  stream_.reset();
}

Status Link::start(UniqueFd fd, transport::StreamOptions options) {
  drop_stream();
  VP_TRY(stream, transport::DataStream::create(std::move(fd), std::move(options), *this));
  stream_ = std::move(stream);
  counted_ = {};
  return attach(*loop_);
}

void Link::detach() {
  if (watched_) loop_->events().unwatch(token_, stream_->fd());
  watched_ = false;
}

Status Link::attach(DataLoop& loop) {
  loop_ = &loop;
  watches_write_ = stream_->wants_write();
  VP_TRY(token, loop.events().watch(stream_->fd(),
                                    watches_write_ ? platform::PollFor::read_write : platform::PollFor::read, *this));
  token_ = token;
  watched_ = true;
  loop.events().again(token_);
  return {};
}

bool Link::send(const transport::Outgoing& message) {
  if (stream_ == nullptr || !stream_->send(message)) return false;
  watch_what_it_wants();
  return true;
}

void Link::close(Error why) {
  if (!dead()) stream_->close(std::move(why));
  if (dead()) loop_->bury_soon();
}

void Link::on_event(const platform::PollEvent& event) {
  using Progress = transport::DataStream::Progress;
  auto progress = Progress::idle;
  if (event.writable || event.hung_up) progress = stream_->on_writable();
  if (progress != Progress::closed && (event.readable || event.hung_up)) progress = stream_->on_readable();
  auto& counters = loop_->node().counters;
  const auto& now = stream_->stats();
  counters.bytes_in.fetch_add(now.bytes_in - counted_.bytes_in, std::memory_order_relaxed);
  counters.bytes_out.fetch_add(now.bytes_out - counted_.bytes_out, std::memory_order_relaxed);
  counted_ = now;
  if (dead()) {
    detach();
    return loop_->bury_soon();
  }
  watch_what_it_wants();
  if (progress == Progress::more) loop_->events().again(token_);
  after_event();
}

void Link::watch_what_it_wants() {
  if (!watched_ || stream_->wants_write() == watches_write_) return;
  watches_write_ = !watches_write_;
  loop_->events().change(token_, stream_->fd(),
                         watches_write_ ? platform::PollFor::read_write : platform::PollFor::read);
}

}  // namespace vrampool::service::data
