// One unix connection of a local program: LocalMessage frames with descriptors, both ways, without blocking.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "platform/unix_socket.h"
#include "service/loop.h"
#include "wire/local_generated.h"

namespace vrampool::service {

// What waits to be sent to one program; a program that does not read is cut off.
inline constexpr std::size_t kLocalBacklogBytesMax = 128u << 20;
// Descriptors that have arrived without the frame that names them.
inline constexpr std::size_t kLocalDescriptorsMax = 64;
// Descriptors that one frame may carry: the count travels in a byte.
inline constexpr std::size_t kFrameDescriptorsMax = 255;

struct LocalFrame {
  wire::LocalMessageT message;
  std::vector<UniqueFd> descriptors;
};

// Threads: control thread. Ownership: the descriptor. The callbacks may destroy the connection only through a post.
class LocalConnection {
 public:
  using OnFrame = std::function<void(LocalFrame)>;
  using OnClosed = std::function<void(const std::string& why)>;
  LocalConnection(Loop& loop, UniqueFd fd, OnFrame on_frame, OnClosed on_closed);

  void send(const wire::LocalMessageT& message, std::vector<UniqueFd> descriptors = {});
  // The socket leaves this connection. An empty descriptor when bytes are still on their way.
  UniqueFd take();
  void close(const std::string& why);
  int fd() const { return fd_.get(); }

 private:
  struct Outgoing {
    std::vector<std::byte> bytes;
    std::vector<UniqueFd> descriptors;
    std::size_t sent = 0, descriptors_sent = 0;
  };
  void readable();
  void writable();
  bool take_frame();
  Result<bool> send_front();

  Loop& loop_;
  UniqueFd fd_;
  OnFrame on_frame_;
  OnClosed on_closed_;
  std::vector<std::byte> in_;
  std::vector<UniqueFd> arrived_;
  std::deque<Outgoing> out_;
  std::size_t backlog_ = 0;
  std::unique_ptr<Loop::Watch> watch_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace vrampool::service
