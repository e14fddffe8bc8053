// Runs the application's error callback on a thread of its own, from a fixed ring of waiting events.
//
// Threads: push any (no allocation; full means the event is dropped and counted). The thread starts with the first
// callback that is set, because most programs set none.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <thread>

#include "client/limits.h"
#include "vrampool/vrampool.h"

namespace vrampool::client {

struct LossNote {
  vp_status status = VP_OK;
  vp_view view{};
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::array<char, 256> message{};
  void say(std::string_view text);
};

class Notifier {
 public:
  ~Notifier() { stop(); }
  void set(vp_error_callback callback, void* user);
  void push(const LossNote& note);
  void stop();

 private:
  void run();
  std::mutex mutex_;
  std::condition_variable changed_;
  vp_error_callback callback_ = nullptr;
  void* user_ = nullptr;
  std::array<LossNote, kLossesWaitingMax> ring_;
  std::size_t first_ = 0, count_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace vrampool::client
