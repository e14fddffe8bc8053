#include "client/registry.h"

#include <pthread.h>

namespace vrampool::client {

const char* to_text(HandleKind kind) {
  switch (kind) {
    case HandleKind::session:
      return "session";
    case HandleKind::segment:
      return "segment";
    case HandleKind::view:
      return "view";
    case HandleKind::token:
      return "token";
  }
  return "handle";
}

namespace {

// The tables are whole in a child, whatever other threads of the parent did.
void before_fork() {
  Registry& r = registry();
  r.sessions.lock_for_fork();
  r.segments.lock_for_fork();
  r.views.lock_for_fork();
  r.operations.lock_for_fork();
}

void after_fork() {
  Registry& r = registry();
  r.operations.unlock_after_fork();
  r.views.unlock_after_fork();
  r.segments.unlock_after_fork();
  r.sessions.unlock_after_fork();
}

Registry* make_registry() {
  ::pthread_atfork(before_fork, after_fork, after_fork);
  return new Registry;
}

}  // namespace

Registry& registry() {
  static Registry* const r = make_registry();
  return *r;
}

Status by_id(Segment& segment, Status answer) {
  if (answer || (answer.error().code != VP_NOT_FOUND && answer.error().code != VP_STALE)) return answer;
  segment.set_gone();
  return error(VP_STALE, "{} ({}) was removed or replaced: open it again", segment.record().name,
               to_text(segment.id()));
}

}  // namespace vrampool::client
