// Accepting programs, attaching them, and answering their messages in tasks.
#include "service/sessions.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "platform/machine.h"

namespace vrampool::service {
namespace {

constexpr std::uint16_t kLocalVersion = 1;
// Attached programs and those that have not said what they are.
constexpr std::size_t kLocalConnectionsMax = 2 * kSessionsMax;
constexpr unsigned kSocketMode = 0666;  // who comes in is judged by credentials

}  // namespace

LocalBody done_body(const Status& status, std::string message) {
  wire::DoneT done;
  done.status = static_cast<std::uint16_t>(status ? VP_OK : status.error().code);
  done.message = status ? std::move(message) : status.error().message;
  return local_body(std::move(done));
}

Sessions::~Sessions() { stop(); }

Status Sessions::listen(const std::string& path) {
  VP_TRY(fd, platform::listen_unix(path, kSocketMode));
  listener_ = std::move(fd);
  path_ = path;
  watch_ = loop_.watch(
      listener_.get(), [this] { accept_all(); }, [] {});
  return {};
}

void Sessions::stop() {
  watch_.reset();
  if (listener_) ::unlink(path_.c_str());
  listener_.reset();
  close_all("the daemon is stopping");
  connections_.clear();
}

void Sessions::close_all(const std::string& why) {
  std::vector<std::uint64_t> all;
  for (const auto& [no, c] : connections_) all.push_back(no);
  for (const std::uint64_t no : all)
    if (Connection* c = find(no)) c->io->close(why);
}

void Sessions::accept_all() {
  while (true) {
    auto fd = platform::accept_unix(listener_.get());
    if (!fd) return log::warn("cannot accept programs: {}", fd.error().message);
    if (!*fd) return;
    open(std::move(*fd));
  }
}

void Sessions::open(UniqueFd fd) {
  const auto peer = platform::peer_credentials(fd.get());
  if (!peer) return log::warn("a program without credentials was turned away: {}", peer.error().message);
  if (connections_.size() >= kLocalConnectionsMax)
    return log::warn("too many programs are connected: one was turned away");
  const std::uint64_t no = next_connection_++;
  Connection& c = connections_[no];
  c.no = no;
  c.peer = *peer;
  c.io = std::make_unique<LocalConnection>(
      loop_, std::move(fd), [this, no](LocalFrame frame) { on_frame(no, std::move(frame)); },
      [this, no](const std::string&) { on_closed(no); });
}

Sessions::Connection* Sessions::find(std::uint64_t no) {
  const auto at = connections_.find(no);
  return at == connections_.end() ? nullptr : &at->second;
}

void Sessions::on_closed(std::uint64_t no) {
  Connection* c = find(no);
  if (!c) return;
  const std::shared_ptr<Session> session = c->session;
  // Erased later: the connection is still on the stack.
  loop_.post([this, no] { connections_.erase(no); });
  if (!std::exchange(c->session, nullptr)) return;
  log::info("client {} ({}) is gone", session->client.value, session->program);
  owner_.session_ended(session);
}

void Sessions::on_frame(std::uint64_t no, LocalFrame frame) {
  Connection* c = find(no);
  if (!c) return;
  const std::uint64_t call = frame.message.call;
  LocalBody& body = frame.message.body;
  if (const auto* ask = body.AsAttach()) return attach(*c, call, *ask);
  if (const auto* ask = body.AsOpenData()) return open_data(*c, call, *ask);
  if (!c->session) return refuse(*c, call, error(VP_INVALID, "the first message must be Attach"));
  if (c->answering >= kRequestsPerSessionMax)
    return refuse(*c, call,
                  error(VP_BUSY, "{} requests of this program are being answered already", kRequestsPerSessionMax));
  ++c->answering;
  loop_.spawn(answer(no, c->session, call, std::move(body), std::move(frame.descriptors)));
}

void Sessions::refuse(Connection& c, std::uint64_t call, Error why) {
  wire::LocalMessageT message;
  message.call = call;
  message.body = done_body(why);
  c.io->send(message);
}

Task<> Sessions::answer(std::uint64_t no, std::shared_ptr<Session> session, std::uint64_t call, LocalBody request,
                        std::vector<UniqueFd> descriptors) {
  LocalAnswer reply = co_await owner_.handle(std::move(session), std::move(request), std::move(descriptors));
  Connection* c = find(no);
  if (!c) co_return;
  --c->answering;
  wire::LocalMessageT message;
  message.call = call;
  message.descriptors = static_cast<std::uint8_t>(std::min(reply.descriptors.size(), kFrameDescriptorsMax));
  message.body = std::move(reply.body);
  c->io->send(message, std::move(reply.descriptors));
}

void Sessions::attach(Connection& c, std::uint64_t call, const wire::AttachT& ask) {
  if (c.session) return refuse(c, call, error(VP_INVALID, "attached already"));
  if (all().size() >= kSessionsMax)
    return refuse(c, call, error(VP_BUSY, "{} programs are attached to this daemon: it takes no more", kSessionsMax));
  if (ask.version_min > kLocalVersion || ask.version_max < kLocalVersion)
    return refuse(c, call,
                  error(VP_UNSUPPORTED,
                        "this daemon speaks version {} with programs, this program {} to {}: update the older one",
                        kLocalVersion, ask.version_min, ask.version_max));
  auto who = owner_.who_is(c.peer);
  if (!who) return refuse(c, call, who.error());
  c.session = std::make_shared<Session>();
  c.session->client = ClientNo{next_client_++};
  platform::random_bytes(&c.session->secret, sizeof c.session->secret);
  c.session->program = ask.program.substr(0, 64);
  c.session->who = *who;
  c.session->rights = FileRights{c.peer.uid, c.peer.gid, who->operator_rights};
  c.session->pid = c.peer.pid;
  wire::AttachedT attached;
  attached.version = kLocalVersion;
  attached.client = c.session->client.value;
  attached.session_secret = c.session->secret;
  attached.page_bytes = kPageBytes;
  std::vector<UniqueFd> descriptors;
  owner_.describe(attached, descriptors);
  log::info("client {} ({}, pid {}, {}) attached", attached.client, c.session->program, c.peer.pid, who->principal);
  wire::LocalMessageT message;
  message.call = call;
  message.descriptors = static_cast<std::uint8_t>(descriptors.size());
  message.body = local_body(std::move(attached));
  c.io->send(message, std::move(descriptors));
}

void Sessions::open_data(Connection& c, std::uint64_t call, const wire::OpenDataT& ask) {
  for (const auto& [no, other] : connections_) {
    if (!other.session || other.session->client.value != ask.client || other.session->secret != ask.session_secret)
      continue;
    if (other.peer.uid != c.peer.uid) break;
    refuse(c, call, Error{VP_OK, ""});  // a Done without error: the socket changes its language behind it
    UniqueFd socket = c.io->take();
    if (!socket) return c.io->close("it sent data before the answer");
    const Status adopted = owner_.adopt_data(other.session->client, std::move(socket), ask.bulk);
    if (!adopted) log::warn("client {}: {}", ask.client, adopted.error().message);
    return loop_.post([this, gone = c.no] { connections_.erase(gone); });
  }
  refuse(c, call, error(VP_DENIED, "no attached program of that number and secret"));
}

void Sessions::tell_loss(ClientNo client, wire::LossEventT event) {
  for (const auto& [no, c] : connections_) {
    if (!c.session || c.session->client != client) continue;
    wire::LocalMessageT message;
    message.body = local_body(std::move(event));
    return c.io->send(message);
  }
}

std::vector<std::shared_ptr<Session>> Sessions::all() const {
  std::vector<std::shared_ptr<Session>> out;
  for (const auto& [no, c] : connections_)
    if (c.session) out.push_back(c.session);
  return out;
}

}  // namespace vrampool::service
