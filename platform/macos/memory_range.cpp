// macOS: inheritance of ranges, and moving pages in one step.
#include "platform/posix/memory_range.h"

#include <errno.h>
#include <mach/mach.h>
#include <sys/mman.h>

#include "platform/posix/poison_page.h"

// mach/mach_vm.h is not in every SDK tree; a stable MIG routine of libSystem (XNU osfmk/mach/mach_vm.defs).
extern "C" kern_return_t mach_vm_remap(vm_map_t target, mach_vm_address_t* address, mach_vm_size_t size,
                                       mach_vm_offset_t mask, int flags, vm_map_t source,
                                       mach_vm_address_t source_address, boolean_t copy, vm_prot_t* current,
                                       vm_prot_t* maximum, vm_inherit_t inheritance);

namespace vrampool::platform {

// There is no advice that keeps a range out of core dumps; they are off by default.
Status keep_private(std::byte* at, std::uint64_t bytes) {
  if (::minherit(at, bytes, VM_INHERIT_NONE) != 0) return error_errno(errno, "keeping a mapping from child processes");
  return {};
}

// Superpages exist only on request.
void forbid_huge_pages(std::byte*, std::uint64_t) {}

bool move_pages(std::byte* from, std::byte* to, std::uint64_t bytes) {
  auto target = reinterpret_cast<mach_vm_address_t>(to);
  vm_prot_t current = VM_PROT_NONE;
  vm_prot_t maximum = VM_PROT_NONE;
  const kern_return_t rc =
      ::mach_vm_remap(mach_task_self(), &target, bytes, 0, VM_FLAGS_FIXED | VM_FLAGS_OVERWRITE, mach_task_self(),
                      reinterpret_cast<mach_vm_address_t>(from), FALSE, &current, &maximum, VM_INHERIT_NONE);
  if (rc != KERN_SUCCESS) return false;
  ::munmap(from, bytes);
  return true;
}

}  // namespace vrampool::platform
