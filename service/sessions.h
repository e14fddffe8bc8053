// Programs on this machine: their connections, who they are, what they asked for, and what goes when they die.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/limits.h"
#include "service/jobs.h"
#include "service/local_connection.h"
#include "service/segments.h"

namespace vrampool::service {

// Requests of one program that are being answered; beyond that it must wait for answers.
inline constexpr std::size_t kRequestsPerSessionMax = 64;

using LocalBody = wire::LocalBodyUnion;
template <class T>
LocalBody local_body(T message) {
  LocalBody b;
  b.Set(std::move(message));
  return b;
}
LocalBody done_body(const Status& status, std::string message = {});

struct LocalAnswer {
  LocalBody body;
  std::vector<UniqueFd> descriptors;
};

// One attached program.
struct Session {
  ClientNo client{};
  std::uint64_t secret = 0;
  std::string program;
  Who who;
  FileRights rights;
  std::int32_t pid = 0;
  std::map<std::uint64_t, SegmentId> views;  // mapped
  std::set<SegmentId> creating;
};

class SessionsOwner {
 public:
  virtual ~SessionsOwner() = default;
  virtual Task<LocalAnswer> handle(std::shared_ptr<Session> session, LocalBody request,
                                   std::vector<UniqueFd> descriptors) = 0;
  // Fills what depends on the node; adds the descriptors that Attached carries.
  virtual void describe(wire::AttachedT& attached, std::vector<UniqueFd>& descriptors) = 0;
  virtual Status adopt_data(ClientNo client, UniqueFd socket, bool bulk) = 0;
  virtual void session_ended(std::shared_ptr<Session> session) = 0;
  virtual Result<Who> who_is(const platform::PeerCredentials& peer) = 0;
};

// Threads: control thread.
class Sessions {
 public:
  Sessions(Loop& loop, SessionsOwner& owner) : loop_(loop), owner_(owner) {}
  ~Sessions();
  // Errors: path taken by a live daemon, too long, no rights.
  Status listen(const std::string& path);
  void close_all(const std::string& why);
  void stop();
  void tell_loss(ClientNo client, wire::LossEventT event);
  std::vector<std::shared_ptr<Session>> all() const;
  std::size_t count() const { return connections_.size(); }

 private:
  struct Connection {
    std::uint64_t no = 0;
    std::unique_ptr<LocalConnection> io;
    platform::PeerCredentials peer;
    std::shared_ptr<Session> session;  // after Attach
    std::size_t answering = 0;
  };
  void accept_all();
  void open(UniqueFd fd);
  void on_frame(std::uint64_t no, LocalFrame frame);
  void on_closed(std::uint64_t no);
  void attach(Connection&, std::uint64_t call, const wire::AttachT&);
  void open_data(Connection&, std::uint64_t call, const wire::OpenDataT&);
  void refuse(Connection&, std::uint64_t call, Error why);
  Task<> answer(std::uint64_t no, std::shared_ptr<Session> session, std::uint64_t call, LocalBody request,
                std::vector<UniqueFd> descriptors);
  Connection* find(std::uint64_t no);

  Loop& loop_;
  SessionsOwner& owner_;
  std::string path_;
  UniqueFd listener_;
  std::unique_ptr<Loop::Watch> watch_;
  std::map<std::uint64_t, Connection> connections_;
  std::uint64_t next_connection_ = 1;
  std::uint64_t next_client_ = 1;
};

}  // namespace vrampool::service
