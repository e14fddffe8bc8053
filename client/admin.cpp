#include "client/admin.h"

namespace vrampool::client {

Result<Admin> Admin::connect(const AdminOptions& options) {
  VP_TRY(fd, connect_daemon(socket_candidates(options.socket_path)));
  auto link = std::make_unique<Link>(std::move(fd));
  VP_TRY(answer, attach(*link, options.program, false, 0, options.deadline));
  UniqueFd board = answer.descriptors.empty() ? UniqueFd() : std::move(answer.descriptors.front());
  VP_TRY(attached, expect<wire::AttachedT>(std::move(answer.body)));
  return Admin(std::move(link), std::move(attached), std::move(board), options.deadline);
}

Result<Envelope> Admin::call(wire::LocalBodyUnion request, Duration deadline) {
  const std::uint64_t number = ++calls_;
  VP_CHECK(link_->send(number, std::move(request), {}, deadline));
  for (;;) {
    VP_TRY(answer, link_->receive(deadline));
    if (answer.call == number) return std::move(answer);
  }
}

Result<std::string> Admin::verb(const std::string& name, std::vector<std::string> arguments, std::string json) {
  return verb(name, std::move(arguments), std::move(json), deadline_);
}

Result<std::string> Admin::verb(const std::string& name, std::vector<std::string> arguments, std::string json,
                                Duration deadline) {
  wire::AdminT request;
  request.verb = name;
  request.arguments = std::move(arguments);
  request.json = std::move(json);
  VP_TRY(answer, call(body_of(std::move(request)), deadline));
  VP_CHECK(status_of(answer.body));
  if (const auto* done = answer.body.AsDone()) return done->message;
  VP_TRY(reply, expect<wire::JsonReplyT>(std::move(answer.body)));
  return std::move(reply.json);
}

}  // namespace vrampool::client
