// Thin calls on a userfaultfd, with the parts of its interface that older headers lack.
//
// Errors: every call returns 0 or an errno value. Source: linux/userfaultfd.h of 6.8,
// Documentation/admin-guide/mm/userfaultfd.
#pragma once

#include <linux/userfaultfd.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "base/unique_fd.h"

#ifndef UFFDIO_CONTINUE_MODE_WP
#define UFFDIO_CONTINUE_MODE_WP (static_cast<__u64>(1) << 1)
#endif
#ifndef UFFD_FEATURE_WP_UNPOPULATED
#define UFFD_FEATURE_WP_UNPOPULATED (1 << 13)
#endif
#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0x00)
#endif

namespace vrampool::platform::uffd {

// MINOR_SHMEM since 5.14, write protection of shmem since 5.19. WP_UNPOPULATED came with CONTINUE_MODE_WP in 6.4, which
// has no bit of its own, and concerns only anonymous memory: it stands for that release.
inline constexpr std::uint64_t kFeaturesFull =
    UFFD_FEATURE_MINOR_SHMEM | UFFD_FEATURE_WP_HUGETLBFS_SHMEM | UFFD_FEATURE_WP_UNPOPULATED;
inline constexpr std::uint64_t kFeaturesWithoutContinueWp = UFFD_FEATURE_MINOR_SHMEM | UFFD_FEATURE_WP_HUGETLBFS_SHMEM;

struct Opened {
  UniqueFd fd;
  bool user_mode_only = false;
  int error = 0;  // errno when fd is empty
};
// The device node of the daemon first, which asks no privilege of us; then the system call; last for user-mode faults
// only.
Opened open(int device_fd);
// Enables features; 0, or EINVAL when the kernel lacks one. `supported` receives what it has.
int enable(int fd, std::uint64_t features, std::uint64_t* supported = nullptr);

int register_range(int fd, std::uint64_t at, std::uint64_t bytes);
int wake(int fd, std::uint64_t at, std::uint64_t bytes);
int write_protect(int fd, std::uint64_t at, std::uint64_t bytes, bool protect);
// `done` receives the bytes that were mapped or copied before the call stopped, never negative.
int continue_range(int fd, std::uint64_t at, std::uint64_t bytes, bool protect, std::uint64_t& done);
int copy(int fd, std::uint64_t to, const void* from, std::uint64_t bytes, std::uint64_t& done);
// Messages that wait now; 0 when none, -1 when the descriptor is broken. Never blocks, whatever flags its other holder
// sets.
int read_messages(int fd, std::span<uffd_msg> out);

}  // namespace vrampool::platform::uffd
