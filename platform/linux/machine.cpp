// Linux: identity and description of this machine.
#include "platform/machine.h"

#include <sys/random.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "base/assert.h"
#include "platform/posix/small_file.h"

namespace vrampool::platform {

namespace {

Result<MachineId> id_from_file(const char* path) {
  std::string text = read_small_file(path);
  std::erase_if(text, [](char c) { return c == '-' || c == '\n'; });
  const auto id = parse_hex128(text);
  if (!id) return error(VP_NOT_FOUND, "{} holds no machine identity; create it with systemd-machine-id-setup", path);
  return MachineId{(*id)[0], (*id)[1]};
}

std::string pretty_name() {
  static constexpr std::string_view kKey = "PRETTY_NAME=\"";
  const std::string text = read_small_file("/etc/os-release");
  const auto at = text.find(kKey);
  if (at == std::string::npos) return "Linux";
  const auto from = at + kKey.size();
  return text.substr(from, text.find('"', from) - from);
}

}  // namespace

Result<MachineId> machine_id() {
  if (auto id = id_from_file("/etc/machine-id")) return id;
  // Containers and minimal systems keep it here, or only have the firmware's.
  if (auto id = id_from_file("/var/lib/dbus/machine-id")) return id;
  if (auto id = id_from_file("/sys/class/dmi/id/product_uuid")) return id;
  return error(VP_NOT_FOUND,
               "this machine has no identity in /etc/machine-id; create it with systemd-machine-id-setup");
}

Result<MachineId> boot_id() { return id_from_file("/proc/sys/kernel/random/boot_id"); }

void random_bytes(void* to, std::size_t bytes) {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t n = ::getrandom(at, std::min<std::size_t>(bytes, 256), 0);
    VP_ASSERT(n > 0 || errno == EINTR);
    if (n > 0) at += n, bytes -= static_cast<std::size_t>(n);
  }
}

MachineId random_id() {
  MachineId id;
  random_bytes(&id, sizeof id);
  return id;
}

MachineText machine_text() {
  utsname u{};
  ::uname(&u);
  std::string host = u.nodename;
  host = host.substr(0, host.find('.'));
  return {host, pretty_name(), std::string(u.sysname) + " " + u.release, u.machine};
}

std::uint64_t ram_bytes() { return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * page_bytes(); }
std::size_t page_bytes() {
  static const auto kBytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return kBytes;
}
unsigned core_count() { return std::max(1u, std::thread::hardware_concurrency()); }

}  // namespace vrampool::platform
