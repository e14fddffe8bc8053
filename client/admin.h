// For the operator's program: one connection to a daemon, any request, its answer. No printing, no logic.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "client/link.h"
#include "wire/local_generated.h"
#include "wire/status_board.h"

namespace vrampool::client {

struct AdminOptions {
  std::string socket_path;  // empty: the usual places
  std::string program = "vrampool";
  Duration deadline = Duration::millis(kControlCallDeadlineMs);
};

// Threads: one at a time. Blocking: every call, at most its deadline. Unasked messages are dropped.
class Admin {
 public:
  // Errors: VP_UNREACHABLE (no daemon; the text says where it was looked for and how to start one).
  static Result<Admin> connect(const AdminOptions& options = {});

  // The answer to Attach: member, pool, fault source, versions.
  const wire::AttachedT& attached() const { return attached_; }
  // The shared status board, read-only; -1 when the daemon passed none.
  int board_fd() const { return board_.get(); }

  // Sends any request; the answer may be a Done (see status_of). Descriptors of the answer come with it.
  Result<Envelope> call(wire::LocalBodyUnion request, Duration deadline);
  Result<Envelope> call(wire::LocalBodyUnion request) { return call(std::move(request), deadline_); }

  // The same with types: ask<wire::JobStartedT>(wire::VerifyJobT{...}). A Done with an error becomes that error.
  template <class Reply, class Request>
  Result<Reply> ask(Request request, Duration deadline) {
    VP_TRY(answer, call(body_of(std::move(request)), deadline));
    return expect<Reply>(std::move(answer.body));
  }
  template <class Reply, class Request>
  Result<Reply> ask(Request request) {
    return ask<Reply>(std::move(request), deadline_);
  }
  // For requests answered by Done alone. Returns its message.
  template <class Request>
  Result<std::string> order(Request request) {
    VP_TRY(done, ask<wire::DoneT>(std::move(request), deadline_));
    return std::move(done.message);
  }
  // An operator's verb; the answer's JSON, or the line of text of a Done.
  Result<std::string> verb(const std::string& name, std::vector<std::string> arguments = {}, std::string json = {});
  Result<std::string> verb(const std::string& name, std::vector<std::string> arguments, std::string json,
                           Duration deadline);

 private:
  Admin(std::unique_ptr<Link> link, wire::AttachedT attached, UniqueFd board, Duration deadline)
      : link_(std::move(link)), attached_(std::move(attached)), board_(std::move(board)), deadline_(deadline) {}
  std::unique_ptr<Link> link_;
  wire::AttachedT attached_;
  UniqueFd board_;
  Duration deadline_;
  std::uint64_t calls_ = 0;
};

// The status board beside the socket (empty: of the usual places). No connection; the daemon may hang or be gone:
// compare `updated` with platform::now(). Errors: VP_NOT_FOUND (no daemon ran here), VP_CORRUPT, VP_BUSY.
Result<wire::BoardText> read_status_board(const std::string& socket_path = {});

}  // namespace vrampool::client
