// The C interface: library, session.
#include "client/registry.h"

using namespace vrampool;
using namespace vrampool::client;

namespace {

Result<SessionOptions> options_of(const vp_connect_options* given) {
  VP_TRY(o, input(given, "vp_connect_options"));
  SessionOptions options;
  if (o.call_deadline_ms < 0 || o.fault_deadline_ms < 0) return error(VP_INVALID, "a deadline cannot be negative");
  if (o.socket_path != nullptr) options.socket_path = o.socket_path;
  options.program = o.program != nullptr ? o.program : own_program_name();
  if (o.call_deadline_ms > 0) options.call_deadline = Duration::millis(o.call_deadline_ms);
  options.fault_deadline = Duration::millis(o.fault_deadline_ms);
  return options;
}

// Takes everything out of the tables that belongs to `session`, so that its handles are closed at once.
void close_handles_of(const Session& session) {
  const auto mine = [&](auto& object) { return &session_of(object) == &session; };
  Registry& r = registry();
  r.operations.take_if(mine);
  r.views.take_if(mine);
  r.segments.take_if(mine);
}

}  // namespace

extern "C" {

const char* vp_version(void) { return VP_VERSION_TEXT; }

const char* vp_last_error(void) { return last_error(); }

const char* vp_strstatus(vp_status status) {
  switch (status) {
    case VP_OK:
      return "ok";
    case VP_FAILED:
      return "failed";
    case VP_INVALID:
      return "invalid argument";
    case VP_NOT_FOUND:
      return "not found";
    case VP_EXISTS:
      return "exists already";
    case VP_NO_SPACE:
      return "no space";
    case VP_DENIED:
      return "not allowed";
    case VP_UNREACHABLE:
      return "daemon not reachable";
    case VP_LOST:
      return "lost with its node";
    case VP_TIMEOUT:
      return "timed out";
    case VP_STALE:
      return "removed or replaced";
    case VP_CORRUPT:
      return "corrupt";
    case VP_UNSUPPORTED:
      return "not supported here";
    case VP_BUSY:
      return "busy";
    case VP_CANCELLED:
      return "cancelled";
    case VP_NO_COORDINATOR:
      return "no coordinator";
    case VP_RECOVERING:
      return "recovering";
    case VP_UNKNOWN_OUTCOME:
      return "unknown outcome";
  }
  return "unknown status";
}

vp_status vp_connect(const vp_connect_options* options, vp_session* session) {
  return guarded([&]() -> Status {
    VP_CHECK(need(session != nullptr, "session"));
    VP_TRY(wanted, options_of(options));
    VP_TRY(made, Session::connect(wanted));
    VP_TRY(id, registry().sessions.add(made));
    session->id = id;
    return {};
  });
}

vp_status vp_disconnect(vp_session session) {
  return guarded([&]() -> Status {
    VP_TRY(found, find_to_block(registry().sessions, session.id));
    VP_CHECK(registry().sessions.take(session.id));
    close_handles_of(*found);
    found->close();
    return {};
  });
}

vp_status vp_after_fork(vp_session session) {
  return guarded([&]() -> Status {
    VP_TRY(old, registry().sessions.find(session.id));
    if (!old->is_child()) return {};
    auto fresh = Session::connect(old->options());
    if (!fresh) return fresh.take_error();
    old->close_sockets_in_child();
    // Its threads and locks are the parent's; touching it in any way could hang. It stays, unused.
    static_cast<void>(new std::shared_ptr<Session>(registry().sessions.replace(session.id, std::move(*fresh))));
    return {};
  });
}

vp_status vp_set_error_callback(vp_session session, vp_error_callback callback, void* user) {
  return guarded([&]() -> Status {
    VP_TRY(found, find(registry().sessions, session.id));
    found->set_callback(callback, user);
    return {};
  });
}

vp_status vp_session_status(vp_session session, vp_session_info* info) {
  return guarded([&]() -> Status {
    VP_TRY(found, find(registry().sessions, session.id));
    vp_session_info out{};
    found->status(out);
    return output(info, out, "vp_session_info");
  });
}

}  // extern "C"
