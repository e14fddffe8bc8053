// An object store of its own for a test, removed with it.
#pragma once

#include <unistd.h>

#include <string>

#include "platform/machine.h"
#include "platform/shared_object.h"

namespace vrampool::platform::testing {

#ifdef __linux__
inline const char* kMemoryDirectory = "/dev/shm";
#else
inline const char* kMemoryDirectory = "/tmp";
#endif

class TempStore {
 public:
  TempStore() : directory_(fmt::format("{}/vptest-{:x}", kMemoryDirectory, random_id().lo)), store_(open()) {}
  ~TempStore() {
    if (::getpid() != owner_) return;  // a forked child must not remove it
    (void)store_.cleanup().ok();
    ::rmdir(directory_.c_str());
  }
  TempStore(const TempStore&) = delete;
  TempStore& operator=(const TempStore&) = delete;
  ObjectStore* operator->() { return &store_; }
  const std::string& directory() const { return directory_; }

 private:
  ObjectStore open() {
    ObjectStoreOptions options;
    options.directory = directory_;
    return ObjectStore::open(options).value();
  }
  pid_t owner_ = ::getpid();
  std::string directory_;
  ObjectStore store_;
};

}  // namespace vrampool::platform::testing
