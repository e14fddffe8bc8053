// Linux: memory of one process and of the system, from /proc.
#include "platform/machine.h"
#include "platform/posix/small_file.h"

namespace vrampool::platform {

Result<ProcessMemory> process_memory(int pid) {
  const std::string folder = fmt::format("/proc/{}/", pid);
  const std::string rollup = read_small_file((folder + "smaps_rollup").c_str());
  const std::string status = read_small_file((folder + "status").c_str());
  if (status.empty()) return error(VP_NOT_FOUND, "no process {}", pid);
  if (rollup.empty())
    return error(VP_DENIED, "the memory of process {} is not ours to see; run as its user or as root", pid);
  return ProcessMemory{number_after(rollup, "\nRss:") * 1024, number_after(rollup, "\nPss:") * 1024,
                       number_after(status, "\nVmPTE:") * 1024};
}

SystemMemory system_memory() {
  const std::string text = read_small_file("/proc/meminfo");
  return {number_after(text, "\nShmem:") * 1024, number_after(text, "\nPageTables:") * 1024,
          number_after(text, "\nMemAvailable:") * 1024};
}

}  // namespace vrampool::platform
