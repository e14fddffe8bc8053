// The C interface: explicit reads and writes, blocking and asynchronous.
#include "client/registry.h"
#include "platform/clock.h"

using namespace vrampool;
using namespace vrampool::client;

namespace {

Status check_buffer(const void* buffer, std::uint64_t bytes) { return need(buffer != nullptr || bytes == 0, "buffer"); }

Move read_of(const Segment& s, std::uint64_t offset, void* buffer, std::uint64_t bytes) {
  return {s.id(), s.record().layout_version, 0, offset, bytes, static_cast<std::byte*>(buffer), nullptr};
}

Move write_of(const Segment& s, std::uint64_t offset, const void* buffer, std::uint64_t bytes) {
  const wire::RecordT& r = s.record();
  return {r.id, r.layout_version, r.create_token, offset, bytes, nullptr, static_cast<const std::byte*>(buffer)};
}

// Bytes of a segment that this node never heard of, or that was removed, are the caller's stale handle.
Status read_now(Segment& s, std::uint64_t offset, void* buffer, std::uint64_t bytes) {
  VP_CHECK(check_buffer(buffer, bytes));
  VP_CHECK(s.check_range(offset, bytes));
  if (bytes == 0) return {};
  return by_id(s, s.session().run(read_of(s, offset, buffer, bytes)));
}

Status write_now(Segment& s, std::uint64_t offset, const void* buffer, std::uint64_t bytes) {
  VP_CHECK(check_buffer(buffer, bytes));
  return by_id(s, s.write(offset, static_cast<const std::byte*>(buffer), bytes));
}

struct Located {
  std::shared_ptr<Segment> segment;
  std::uint64_t offset = 0;
};

Result<Located> locate(vp_session session, std::uint64_t address) {
  VP_TRY(s, find_to_block(registry().sessions, session.id));
  auto segment = s->segment_at(address);
  if (segment == nullptr)
    return error(VP_NOT_FOUND, "no open segment of this session holds address {:#x}: open it first", address);
  const std::uint64_t base = segment->record().address;
  return Located{std::move(segment), address - base};
}

struct AsyncAsk {
  vp_completion completion;
  void* user;
  vp_token* token;
};

Status start_async(const std::shared_ptr<Segment>& segment, const Move& move, const AsyncAsk& ask) {
  VP_CHECK(need(ask.completion != nullptr || ask.token != nullptr, "completion or token"));
  Session& session = segment->session();
  auto operation = std::make_shared<Operation>();
  operation->owner = segment->session_ptr();
  operation->channel = &session.channel_for(move);
  operation->transfer = std::make_shared<Transfer>();
  Transfer& t = *operation->transfer;
  t.patience = session.options().call_deadline;
  t.asynchronous = true;
  t.completion = ask.completion;
  t.user = ask.user;
  std::uint64_t id = 0;
  if (ask.token != nullptr) {
    VP_TRY(added, registry().operations.add(operation));
    id = added;
    ask.token->id = id;
  }
  Status started = operation->channel->start(operation->transfer, move);
  if (!started && id != 0) static_cast<void>(registry().operations.take(id));
  return started;
}

// What a finished operation ended with; its handle goes.
Status outcome_of(const Operation& operation, std::uint64_t id) {
  static_cast<void>(registry().operations.take(id));
  const Transfer& t = *operation.transfer;
  return t.status == VP_OK ? Status{} : Status(Error{t.status, t.message});
}

}  // namespace

extern "C" {

vp_status vp_read(vp_segment segment, uint64_t offset, void* buffer, uint64_t bytes) {
  return guarded([&]() -> Status {
    VP_TRY(s, find_to_block(registry().segments, segment.id));
    return read_now(*s, offset, buffer, bytes);
  });
}

vp_status vp_write(vp_segment segment, uint64_t offset, const void* buffer, uint64_t bytes) {
  return guarded([&]() -> Status {
    VP_TRY(s, find_to_block(registry().segments, segment.id));
    return write_now(*s, offset, buffer, bytes);
  });
}

vp_status vp_read_address(vp_session session, uint64_t address, void* buffer, uint64_t bytes) {
  return guarded([&]() -> Status {
    VP_TRY(at, locate(session, address));
    return read_now(*at.segment, at.offset, buffer, bytes);
  });
}

vp_status vp_write_address(vp_session session, uint64_t address, const void* buffer, uint64_t bytes) {
  return guarded([&]() -> Status {
    VP_TRY(at, locate(session, address));
    return write_now(*at.segment, at.offset, buffer, bytes);
  });
}

vp_status vp_read_async(vp_segment segment, uint64_t offset, void* buffer, uint64_t bytes, vp_completion completion,
                        void* user, vp_token* token) {
  return guarded([&]() -> Status {
    VP_CHECK(check_buffer(buffer, bytes));
    VP_TRY(s, find(registry().segments, segment.id));
    VP_CHECK(s->check_range(offset, bytes));
    return start_async(s, read_of(*s, offset, buffer, bytes), {completion, user, token});
  });
}

vp_status vp_write_async(vp_segment segment, uint64_t offset, const void* buffer, uint64_t bytes,
                         vp_completion completion, void* user, vp_token* token) {
  return guarded([&]() -> Status {
    VP_CHECK(check_buffer(buffer, bytes));
    VP_TRY(s, find_to_block(registry().segments, segment.id));
    VP_CHECK(s->check_writable());
    VP_CHECK(s->check_range(offset, bytes));
    if (offset % VP_PAGE_BYTES != 0 || bytes % VP_PAGE_BYTES != 0) {
      return error(VP_INVALID, "an asynchronous write takes whole pages of {} bytes", VP_PAGE_BYTES);
    }
    s->note_whole_pages(offset, bytes);
    return start_async(s, write_of(*s, offset, buffer, bytes), {completion, user, token});
  });
}

vp_status vp_wait(vp_token token, int32_t timeout_ms) {
  return guarded([&]() -> Status {
    VP_TRY(operation, find(registry().operations, token.id));
    if (timeout_ms != 0 && in_completion()) return error(VP_BUSY, "a callback must not wait for the daemon");
    Transfer& t = *operation->transfer;
    const bool done = timeout_ms < 0 ? operation->channel->wait_to_end(t)
                                     : operation->channel->wait(t, platform::now() + Duration::millis(timeout_ms));
    if (!done && timeout_ms >= 0) return error(VP_TIMEOUT, "the operation still runs");
    if (!done) operation->channel->give_up(t, VP_TIMEOUT, "the daemon did not answer in time");
    return outcome_of(*operation, token.id);
  });
}

}  // extern "C"
