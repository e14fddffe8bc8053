// The ledger of POSIX shared-memory objects: one small file per object, written before the object is made.
//
// The system cannot list shm objects, and a lost name is memory lost until reboot. File "<name>" in the store's
// directory holds the shm name and the size; its presence says that the object may exist.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace vrampool::platform {

// PSHMNAMLEN; longer names fail with ENAMETOOLONG.
inline constexpr std::size_t kShmNameBytesMax = 31;

struct LedgerEntry {
  std::string shm_name;
  std::uint64_t bytes = 0;
};
// A shm name that nobody guesses or has: "/vp-" and 20 hex digits.
std::string new_shm_name();
// VP_EXISTS when the object is in the ledger already. Durable when it returns.
Status write_entry(const std::string& path, const LedgerEntry& entry);
std::optional<LedgerEntry> read_entry(const std::string& path);
Result<std::vector<std::string>> list_entries(const std::string& directory);
struct ShmDescriptors {
  UniqueFd read_write;
  UniqueFd read_only;
};
// A new shm object of that size, mode 0600. ftruncate works once per object (EINVAL after).
Result<ShmDescriptors> make_shm(const std::string& shm_name, std::uint64_t bytes);
// ENOENT in errno when there is none of that name.
ShmDescriptors open_shm(const std::string& shm_name);

}  // namespace vrampool::platform
