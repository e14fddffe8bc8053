// TLS connections between daemons: dialled or accepted, opened by Hello and Welcome, then frames both ways.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "service/loop.h"
#include "service/pool_key.h"
#include "wire/control_generated.h"

namespace vrampool::service {

// What waits to be sent on one connection; beyond that the peer is too slow and the connection is cut.
inline constexpr std::size_t kLinkBacklogBytesMax = 128u << 20;
// Before Hello a stranger may send this much.
inline constexpr std::size_t kHelloBytesMax = 64u << 10;
// Connections that have not finished their Hello.
inline constexpr std::size_t kLinksOpeningMax = 64;

// Who is on the other side, as it said in its Hello or Welcome.
struct PeerFacts {
  NodeId node{};
  Sender sender{};  // member 0: not on the roster yet
  Incarnation incarnation{};
  std::string name;
  std::string address;  // "host:port" of the connection's far end
  std::string host;     // the host part of it
  std::uint16_t data_port = 0;
  bool data_tls = false;
  wire::LinkRole role = wire::LinkRole::control;
  bool dialled = false;  // by us
};

// One open connection. Threads: control thread.
class Link {
 public:
  virtual ~Link() = default;
  virtual const PeerFacts& peer() const = 0;
  virtual void send(std::vector<std::byte> message) = 0;  // a FlatBuffer; the frame is added here
  virtual void close(const std::string& why) = 0;
};
using LinkPtr = std::shared_ptr<Link>;

// The hub of the star; called on the control thread.
class LinkOwner {
 public:
  virtual ~LinkOwner() = default;
  virtual wire::HelloT hello(wire::LinkRole role) = 0;
  // Empty: welcome. Otherwise one line that the other side is told.
  virtual std::string judge(const PeerFacts& peer, PoolId pool) = 0;
  virtual void link_up(const LinkPtr&) = 0;
  virtual void link_down(const LinkPtr&, const std::string& why) = 0;
  virtual void link_message(const LinkPtr&, std::span<const std::byte> message) = 0;
  // Somebody could not come in: wrong key, wrong pool, silence.
  virtual void stranger_refused(const std::string& address, const std::string& why) = 0;
};

// The listener and the dialler. Threads: control thread. Errors: address in use, unusable key.
class Links {
 public:
  static Result<std::unique_ptr<Links>> create(Loop&, LinkOwner&, const PoolKey&);
  virtual ~Links() = default;
  virtual Status listen(const std::string& address, std::uint16_t port) = 0;
  virtual std::uint16_t port() const = 0;
  // Up within kConnectDeadlineMs, or the reason why not. The link belongs to the owner after link_up().
  virtual void dial(const std::string& address, wire::LinkRole role, std::function<void(Result<LinkPtr>)> done) = 0;
  virtual void close_all() = 0;
};

// "host:port" or "[v6]:port". Errors: VP_INVALID.
struct HostPort {
  std::string host;
  std::uint16_t port = 0;
};
Result<HostPort> parse_host_port(std::string_view text);
std::string to_text(const HostPort&);

}  // namespace vrampool::service
