// Several daemons on loopback with directories of their own, which vanish together.
//
// Ownership: the destructor ends every daemon and removes every directory, also after a failure half-way.
// Threads: one. Errors: a daemon that does not come up is reported with the last line of its log.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace vrampool::cli {

struct ClusterOptions {
  unsigned nodes = 3;
  std::uint64_t capacity_bytes = 1ull << 30;
  bool overcommit = false;
  bool outlives = false;  // the daemons go on when this program ends
};

struct ClusterNode {
  std::string name;
  std::string dir;         // state, socket, log
  std::string memory_dir;  // below /dev/shm
  std::string socket;
  pid_t pid = -1;
};

class Cluster {
 public:
  Cluster() = default;
  ~Cluster() { stop(); }
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  // Starts the daemons and waits until each answers.
  Status start(const ClusterOptions& options);
  // init on the first, join on the others.
  Status form_pool();
  // Ends the daemons and removes the directories. May be called twice.
  void stop();
  // From now on the daemons and directories stay.
  void keep();

  const std::vector<ClusterNode>& nodes() const { return nodes_; }
  const std::string& dir() const { return dir_; }
  // The last line of each daemon's log, for a failure's report.
  std::vector<std::string> last_words() const;

 private:
  Status make_directories(unsigned count);
  std::string dir_, memory_dir_;
  std::vector<ClusterNode> nodes_;
};

// vrampoold beside this program, below its installation, or in $PATH.
Result<std::string> find_daemon();

}  // namespace vrampool::cli
