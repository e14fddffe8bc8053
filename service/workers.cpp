// The worker threads behind Workers.
#include "service/workers.h"

#include "platform/process.h"

namespace vrampool::service {

Workers::Workers(const char* name, unsigned threads) {
  for (unsigned i = 0; i < threads; ++i)
    threads_.emplace_back([this, name] {
      platform::name_this_thread(name);
      serve();
    });
}

Workers::~Workers() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    queue_.clear();
  }
  wake_.notify_all();
  for (std::thread& t : threads_) t.join();
}

bool Workers::run(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    if (closing_ || queue_.size() >= kWorkerQueueMax) return false;
    queue_.push_back(std::move(work));
  }
  wake_.notify_one();
  return true;
}

void Workers::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return closing_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work();
    lock.lock();
  }
}

}  // namespace vrampool::service
