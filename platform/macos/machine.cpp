// macOS: identity and description of this machine.
#include "platform/machine.h"

#include <stdlib.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include <algorithm>

#include "platform/macos/system_values.h"

// Declared in unistd.h of the full SDK only; exported by libSystem since 10.5.
extern "C" int gethostuuid(uuid_t id, const struct timespec* wait);

namespace vrampool::platform {

namespace {

MachineId from_bytes(const unsigned char* bytes) {
  MachineId id;
  for (int i = 0; i < 8; ++i) id.hi = id.hi << 8 | bytes[i];
  for (int i = 8; i < 16; ++i) id.lo = id.lo << 8 | bytes[i];
  return id;
}

}  // namespace

Result<MachineId> machine_id() {
  uuid_t id{};
  const timespec wait{2, 0};
  if (::gethostuuid(id, &wait) != 0) return error(VP_NOT_FOUND, "this Mac does not tell its hardware UUID");
  return from_bytes(id);
}

// 14.0 and before have the same name; a virtual machine restored from a snapshot keeps its session, which is what we
// want.
Result<MachineId> boot_id() {
  std::string text = sysctl_text("kern.bootsessionuuid");
  std::erase(text, '-');
  const auto id = parse_hex128(text);
  if (!id) return error(VP_NOT_FOUND, "this Mac does not tell its boot session");
  return MachineId{(*id)[0], (*id)[1]};
}

void random_bytes(void* to, std::size_t bytes) { ::arc4random_buf(to, bytes); }

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
  return {host, "macOS " + sysctl_text("kern.osproductversion"), std::string(u.sysname) + " " + u.release, u.machine};
}

std::uint64_t ram_bytes() { return sysctl_number("hw.memsize"); }
std::size_t page_bytes() {
  static const auto kBytes = static_cast<std::size_t>(::getpagesize());
  return kBytes;
}
unsigned core_count() { return std::max(1u, static_cast<unsigned>(sysctl_number("hw.activecpu"))); }

}  // namespace vrampool::platform
