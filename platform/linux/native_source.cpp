// Linux: which fault source this kernel and these privileges allow.
#include "platform/posix/native_source.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "platform/linux/userfaultfd.h"

namespace vrampool::platform {

namespace {

FaultSourceProbe judge(std::uint64_t features, bool user_mode_only) {
  FaultSourceProbe p;
  if ((features & uffd::kFeaturesFull) == uffd::kFeaturesFull) {
    p.kind = FaultSourceKind::userfaultfd;
    p.user_mode_only = user_mode_only;
    p.reason = user_mode_only ? "userfaultfd for user-mode faults only: system calls on missing pages fail; let the "
                                "daemon pass /dev/userfaultfd"
                              : "userfaultfd with write-protected mapping";
  } else if ((features & uffd::kFeaturesWithoutContinueWp) == uffd::kFeaturesWithoutContinueWp) {
    p.lacks_continue_wp = true;
    p.reason = "posix: this kernel's userfaultfd cannot map a page write-protected in one step; that needs Linux 6.4";
  } else {
    p.reason =
        "posix: this kernel's userfaultfd cannot handle minor faults or write protection of shared memory; that needs "
        "Linux 6.4";
  }
  return p;
}

}  // namespace

FaultSourceProbe probe_fault_source(int device_fd) {
  const uffd::Opened opened = uffd::open(device_fd);
  FaultSourceProbe none;
  none.reason =
      fmt::format("posix: userfaultfd is not to be had here ({}); a container's seccomp profile may forbid it",
                  ::strerror(opened.error));
  if (!opened.fd) return none;
  std::uint64_t features = 0;
  const int rc = uffd::enable(opened.fd.get(), 0, &features);
  return rc == 0 ? judge(features, opened.user_mode_only) : judge(0, false);
}

int open_fault_device() { return ::open("/dev/userfaultfd", O_RDWR | O_CLOEXEC); }

}  // namespace vrampool::platform
