// What a node keeps on disk: who it is, how often it started, and the membership machine's durable state, in one SQLite
// file below the state directory. One thread of its own writes; the control thread never waits for a disk.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "base/ids.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "membership/io.h"
#include "service/sqlite.h"
#include "service/workers.h"

namespace vrampool::service {

// This process start of this node.
struct Birth {
  NodeId node{};
  Life life{};
  Incarnation incarnation{};
};

class Store {
 public:
  // Takes the directory's lock. Errors: VP_BUSY another daemon uses it; VP_DENIED unreadable; VP_CORRUPT damaged;
  // VP_INVALID copied from another machine.
  static Result<std::unique_ptr<Store>> open(const std::string& state_dir);
  ~Store();

  // Life + 1, durable when it returns. The incarnation stays only if this boot's memory in `memory_dir` is still the
  // one of the last life. Blocking: an fsync; at start only.
  Result<Birth> begin_life(const std::string& memory_dir);
  Result<membership::DurableState> load();

  // Applies in order on the store's thread, then calls `done` there. A full disk is retried until it works or the
  // store closes. Threads: any.
  void persist(membership::Persist order, std::function<void()> done);
  // Waits until everything given before is on disk. Blocking.
  void drain();
  // True while a write does not succeed; status shows it.
  bool failing() const { return failing_; }

  // Stores a whole state at once, for a node that has just been admitted. Blocking.
  Status replace(const membership::DurableState&);
  // Forgets the pool: membership, registry, key. The node comes back as a new one.
  Status wipe();
  // The next life begins with empty memory (`--cleanup`).
  Status void_memory();

  const std::string& directory() const { return directory_; }

 private:
  explicit Store(std::string directory, Database db) : directory_(std::move(directory)), db_(std::move(db)) {}
  Status create_tables();
  Status apply(const membership::Persist&);
  Status apply_op(const membership::DurableOp&);
  Result<std::int64_t> number(const char* key, std::int64_t fallback);
  Result<std::string> text(const char* key);
  Status put(const char* key, std::int64_t value);
  Status put(const char* key, const std::string& value);
  Status bind_to_machine();

  std::string directory_;
  UniqueFd lock_;
  Database db_;
  std::atomic<bool> failing_ = false, closing_ = false;
  std::unique_ptr<Workers> thread_;  // last: joins first
};

}  // namespace vrampool::service
