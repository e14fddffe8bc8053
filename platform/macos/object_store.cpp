// macOS: objects are POSIX shared memory, named by the ledger.
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/macos/shm_ledger.h"
#include "platform/posix/object_names.h"
#include "platform/pressure.h"
#include "platform/shared_object.h"

namespace vrampool::platform {

namespace {
std::string path_of(const std::string& directory, std::string_view name) {
  return fmt::format("{}/{}", directory, name);
}
}  // namespace

// Any directory will do: only the ledger lies in it.
Result<ObjectStore> ObjectStore::open(const ObjectStoreOptions& options) {
  VP_CHECK(make_directory(options.directory));
  return ObjectStore(options.directory);
}

Result<SharedObject> ObjectStore::create(std::string_view name, std::uint64_t bytes) {
  VP_CHECK(check_object_name(name));
  VP_CHECK(check_object_bytes(bytes));
  const std::string path = path_of(directory_, name);
  const LedgerEntry entry{new_shm_name(), bytes};
  VP_CHECK(write_entry(path, entry));
  auto made = make_shm(entry.shm_name, bytes);
  if (made) return SharedObject(std::move(made->read_write), std::string(name), bytes, std::move(made->read_only));
  ::unlink(path.c_str());
  return made.take_error();
}

Result<SharedObject> ObjectStore::open_existing(std::string_view name) {
  VP_CHECK(check_object_name(name));
  const std::string path = path_of(directory_, name);
  const auto entry = read_entry(path);
  if (!entry) return error(VP_NOT_FOUND, "there is no shared object {}", path);
  ShmDescriptors d = open_shm(entry->shm_name);
  if (!d.read_write && errno == ENOENT)
    return error(VP_NOT_FOUND, "the shared object {} was never made or is of an earlier boot", path);
  if (!d.read_write) return error_errno(errno, "opening " + path);
  struct stat s {};
  // The kernel rounds the size up to whole pages.
  if (::fstat(d.read_write.get(), &s) != 0 || static_cast<std::uint64_t>(s.st_size) < entry->bytes)
    return error(VP_CORRUPT, "{} has lost its size", path);
  return SharedObject(std::move(d.read_write), std::string(name), entry->bytes, std::move(d.read_only));
}

Result<std::vector<std::string>> ObjectStore::list() const { return list_entries(directory_); }

// First the object, then its entry: a crash between leaves an entry of nothing, never an object without entry.
Status ObjectStore::remove(std::string_view name) {
  VP_CHECK(check_object_name(name));
  const std::string path = path_of(directory_, name);
  if (const auto entry = read_entry(path); entry && ::shm_unlink(entry->shm_name.c_str()) != 0 && errno != ENOENT)
    return error_errno(errno, "removing " + path);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return error_errno(errno, "removing the ledger entry " + path);
  return {};
}

// The system does not tell how much of an object is there; the whole size is the safe answer for a donation's cap.
std::uint64_t ObjectStore::allocated_bytes() const {
  const auto names = list();
  std::uint64_t sum = 0;
  if (names)
    for (const auto& name : *names)
      if (const auto entry = read_entry(path_of(directory_, name))) sum += entry->bytes;
  return sum;
}

std::uint64_t ObjectStore::free_bytes() const { return memory_pressure().available_bytes; }

Result<std::size_t> ObjectStore::cleanup() {
  VP_TRY(names, list());
  for (const auto& name : names) VP_CHECK(remove(name));
  return names.size();
}

}  // namespace vrampool::platform
