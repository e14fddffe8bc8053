// What this machine and a process on it are: identity, memory, text for people.
//
// Threads: any. Blocking: reads small system files; not for hot paths. Errors: as Result where a caller must act,
// zero or empty where the number is only shown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/ids.h"
#include "base/result.h"

namespace vrampool::platform {

// An identity of the machine that survives restarts and reinstallation of vrampool (Linux: /etc/machine-id; macOS:
// gethostuuid). NodeId is bound to it, so that a copied state directory is noticed.
struct MachineId {
  std::uint64_t hi = 0;
  std::uint64_t lo = 0;
  constexpr auto operator<=>(const MachineId&) const = default;
};
Result<MachineId> machine_id();

// Changes with every boot: shared objects of another boot are gone (Linux: boot_id; macOS: kern.bootsessionuuid).
Result<MachineId> boot_id();

// 128 random bits from the system, for NodeId, PoolId and secrets.
MachineId random_id();
// Fills with random bytes from the system.
void random_bytes(void* to, std::size_t bytes);

struct MachineText {
  std::string host_name;  // without the domain
  std::string os;         // "Debian GNU/Linux 12 (bookworm)", "macOS 26.1"
  std::string kernel;     // "Linux 6.18.1", "Darwin 25.1.0"
  std::string cpu;        // "x86_64", "arm64"
};
MachineText machine_text();

std::uint64_t ram_bytes();
// The kernel's page: 4 KiB on most Linux, 16 KiB on Apple silicon, 64 KiB on some arm64 servers.
std::size_t page_bytes();
unsigned core_count();

// Memory of a process. Units: bytes. On macOS `proportional` is the physical footprint.
struct ProcessMemory {
  std::uint64_t resident = 0;
  std::uint64_t proportional = 0;  // PSS: a page shared by n mappers counts 1/n
  std::uint64_t page_tables = 0;   // 0 where the system does not say
};
Result<ProcessMemory> process_memory(int pid);

// Memory of the whole system that no process figure shows. Linux only; zeros elsewhere.
struct SystemMemory {
  std::uint64_t shmem = 0;
  std::uint64_t page_tables = 0;
  std::uint64_t available = 0;
};
SystemMemory system_memory();

}  // namespace vrampool::platform
