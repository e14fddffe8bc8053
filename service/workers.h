// Threads for what may block: files, hashes, jobs. Bounded queue; the control thread never waits for them.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/result.h"
#include "service/loop.h"

namespace vrampool::service {

inline constexpr std::size_t kWorkerQueueMax = 1024;

// Threads: any may call run(). The destructor finishes what runs, drops what waits, and joins.
class Workers {
 public:
  Workers(const char* name, unsigned threads);
  ~Workers();
  // False: the queue is full, or the pool is closing.
  bool run(std::function<void()> work);

  // From a task: runs `work` on a worker and comes back to the control thread with its result.
  template <class T>
  Task<Result<T>> offload(Loop& loop, std::function<Result<T>()> work) {
    Reply<Result<T>> reply = loop.reply<Result<T>>();
    auto job = [&loop, reply, work = std::move(work)] {
      auto result = std::make_shared<Result<T>>(work());
      loop.post([reply, result] { reply.set(std::move(*result)); });
    };
    if (!run(std::move(job))) co_return error(VP_BUSY, "too much file work is waiting: try again in a moment");
    co_return co_await reply;
  }

 private:
  void serve();
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;
  bool closing_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace vrampool::service
