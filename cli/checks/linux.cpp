// What doctor looks at on Linux.
#ifdef __linux__
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include <filesystem>

#include "base/text.h"
#include "cli/checks/checks.h"
#include "platform/fault_source.h"
#include "platform/machine.h"

namespace vrampool::cli {
namespace {

Finding fault_source() {
  const int device = platform::open_fault_device();
  const platform::FaultSourceProbe probe = platform::probe_fault_source(device);
  if (device >= 0) ::close(device);
  const std::string kernel = platform::machine_text().kernel;
  const std::string found = fmt::format("{} on {}: {}", platform::to_text(probe.kind), kernel, probe.reason);
  if (probe.kind != platform::FaultSourceKind::userfaultfd) {
    return note("fault source", found,
                "lazy views work through signals; for userfaultfd use kernel 5.19 or later and run the daemon as root, "
                "or sysctl vm.unprivileged_userfaultfd=1");
  }
  if (probe.user_mode_only) {
    return note("fault source", found,
                "system calls on missing pages fail (EFAULT): let vrampoold read /dev/userfaultfd, or sysctl "
                "vm.unprivileged_userfaultfd=1");
  }
  return good("fault source", found);
}

Finding shared_memory(const std::string& dir) {
  struct statfs about {};
  if (::statfs(dir.c_str(), &about) != 0) return problem("shared memory", dir + " is not there", "mount a tmpfs there");
  if (about.f_type != TMPFS_MAGIC) {
    return problem("shared memory", dir + " is no tmpfs", fmt::format("mount -t tmpfs -o size=80% tmpfs {}", dir));
  }
  const std::uint64_t size = static_cast<std::uint64_t>(about.f_blocks) * static_cast<std::uint64_t>(about.f_bsize);
  const std::string found = fmt::format("tmpfs {} of {}", dir, size == 0 ? "unlimited size" : format_bytes(size));
  if (size == 0 || size >= platform::ram_bytes() / 10 * 3) return good("shared memory", found);
  return problem("shared memory", fmt::format("{}, RAM is {}", found, format_bytes(platform::ram_bytes())),
                 fmt::format("mount -o remount,size=80% {}", dir));
}

Finding locked_memory() {
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  if (limit.rlim_cur == RLIM_INFINITY) return good("locked memory", "no limit");
  return note("locked memory", fmt::format("at most {}", format_bytes(limit.rlim_cur)),
              "enough over TCP; RDMA wants LimitMEMLOCK=infinity, which the unit that we ship sets");
}

Finding huge_pages() {
  const std::string path = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
  const std::string text = small_file(path);
  const std::size_t from = text.find('['), to = text.find(']');
  if (from == std::string::npos || to == std::string::npos) return good("huge pages", "not offered by this kernel");
  const std::string mode = text.substr(from + 1, to - from - 1);
  if (mode != "always" && mode != "force" && mode != "within_size")
    return good("huge pages", "shmem_enabled is " + mode);
  return problem("huge pages", "shmem_enabled is " + mode + ": a touched page costs 2 MiB, evicted ones stay",
                 "echo advise > " + path);
}

Finding clock() {
  timex t{};
  const int state = ::adjtimex(&t);
  if (state >= 0 && (t.status & STA_UNSYNC) == 0) return good("clock", "kept in step by a time service");
  return note("clock", "not kept in step",
              "nothing here depends on the hour, but logs are easier to compare: timedatectl set-ntp true");
}

bool has_battery() {
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/class/power_supply", failed)) {
    if (small_file(entry.path() / "type") == "Battery" && small_file(entry.path() / "scope") != "Device") return true;
  }
  return false;
}

Finding sleep() {
  if (!has_battery()) return good("sleep", "no battery: this machine stays awake by itself");
  return note("sleep", "this machine has a battery and may go to sleep, which takes it out of the pool",
              "systemctl mask sleep.target suspend.target, or set HandleLidSwitch=ignore in logind.conf");
}

Finding firewall() {
  if (small_file("/etc/ufw/ufw.conf").find("ENABLED=yes") != std::string::npos) {
    return note("firewall", "ufw is on", "ufw allow 7420:7421/tcp");
  }
  if (::access("/run/firewalld", F_OK) == 0) {
    return note("firewall", "firewalld is on",
                "firewall-cmd --permanent --add-port=7420-7421/tcp && firewall-cmd --reload");
  }
  return good("firewall", "neither ufw nor firewalld is on");
}

}  // namespace

Findings system_findings(const std::string& memory_dir) {
  return {fault_source(), shared_memory(memory_dir), locked_memory(), huge_pages(), clock(), sleep(), firewall()};
}

}  // namespace vrampool::cli
#endif
