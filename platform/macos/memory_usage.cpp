// macOS: memory of one process (physical footprint) and of the system.
#include <libproc.h>
#include <mach/mach.h>
#include <mach/mach_host.h>
#include <sys/resource.h>

#include "platform/machine.h"

namespace vrampool::platform {

Result<ProcessMemory> process_memory(int pid) {
  rusage_info_v2 usage{};
  if (::proc_pid_rusage(pid, RUSAGE_INFO_V2, reinterpret_cast<rusage_info_t*>(&usage)) != 0)
    return error(VP_NOT_FOUND, "no process {}, or its memory is not ours to see", pid);
  return ProcessMemory{usage.ri_resident_size, usage.ri_phys_footprint, 0};
}

// What could be had without pushing others to the compressor: free, speculative, inactive file pages and purgeable
// ones.
SystemMemory system_memory() {
  vm_statistics64_data_t vm{};
  mach_msg_type_number_t count = HOST_VM_INFO64_COUNT;
  const mach_port_t host = ::mach_host_self();
  const bool good =
      ::host_statistics64(host, HOST_VM_INFO64, reinterpret_cast<host_info64_t>(&vm), &count) == KERN_SUCCESS;
  ::mach_port_deallocate(mach_task_self(), host);
  if (!good) return {};
  const std::uint64_t pages = std::uint64_t{vm.free_count} + vm.external_page_count + vm.purgeable_count;
  return {0, 0, pages * page_bytes()};
}

}  // namespace vrampool::platform
