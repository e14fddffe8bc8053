// Sparse shared-memory objects by name: one per piece, cache or metadata, adopted again after a daemon restart.
//
// Linux: files of mode 0600 in a directory on tmpfs. macOS: shm_open names of at most 31 characters, with a ledger file
// in the directory written before the object, because the system cannot list them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace vrampool::platform {

// Address ranges of objects and views start here when they are at least this long, so that a kernel can use large
// tables.
inline constexpr std::size_t kMapAlignBytes = 2u << 20;

enum class MapUse : std::uint8_t {
  cache,  // punched in 16 KiB: no huge folios, else a hole frees nothing and shows zeros
  sealed  // written once, removed whole: huge folios welcome
};

// Threads: one at a time; `memory()` may be used by many. Ownership: descriptor and mapping; move only. The object
// itself lives until `unlink` and the last mapping.
class SharedObject {
 public:
  SharedObject() = default;
  SharedObject(SharedObject&&) noexcept;
  SharedObject& operator=(SharedObject&&) noexcept;
  ~SharedObject();

  explicit operator bool() const { return static_cast<bool>(fd_); }
  const std::string& name() const { return name_; }
  std::uint64_t bytes() const { return bytes_; }
  int fd() const { return fd_.get(); }

  // The read-write alias of the whole object, mapped once; not inherited by fork, not dumped. Touch only bytes that
  // were reserved: on Linux a store past the file system's limit is SIGBUS. A mere load from a hole allocates a zero
  // page.
  Status map(MapUse use);
  std::span<std::byte> memory() const { return {memory_, memory_ == nullptr ? 0 : static_cast<std::size_t>(bytes_)}; }
  void unmap();

  // A descriptor to give to clients that may only read. Advisory between programs of the daemon's own uid, which may
  // open the object again; another uid is refused by mode 0600.
  Result<UniqueFd> read_only_descriptor() const;
  // A descriptor with full rights, for clients that may write.
  Result<UniqueFd> read_write_descriptor() const;

  // Makes room for [offset, +bytes) BEFORE anything lands there: VP_NO_SPACE instead of SIGBUS later. Bytes already
  // there stay. macOS has no such call: succeeds unless memory pressure is above normal. Blocking: about 2 us per 4 KiB
  // page.
  Status reserve(std::uint64_t offset, std::uint64_t bytes);
  // Gives [offset, +bytes) back; it then reads as zero. All mappings of all processes lose the pages before this
  // returns. REQUIRES: both multiples of release_granule_bytes(). VP_UNSUPPORTED where that is 0.
  Status release(std::uint64_t offset, std::uint64_t bytes);
  // The smallest part that can be given back; 0: only the whole object, by unlink.
  static std::size_t release_granule_bytes();

  // Memory the object occupies now.
  std::uint64_t allocated_bytes() const;

 private:
  friend class ObjectStore;
  friend Result<SharedObject> create_unnamed_object(const char* label, std::uint64_t bytes);
  friend Result<SharedObject> adopt_unnamed_object(UniqueFd fd, std::uint64_t bytes);
  SharedObject(UniqueFd fd, std::string name, std::uint64_t bytes, UniqueFd read_only = UniqueFd())
      : fd_(std::move(fd)), read_only_(std::move(read_only)), name_(std::move(name)), bytes_(bytes) {}
  UniqueFd fd_;
  UniqueFd read_only_;  // macOS: opened while the system's name was at hand. Linux opens it when asked.
  std::string name_;
  std::uint64_t bytes_ = 0;
  std::byte* memory_ = nullptr;
};

struct ObjectStoreOptions {
  std::string directory;  // created with mode 0700 when missing
  // Linux: refuse a directory that is not on tmpfs. Off only where a test wants a plain directory.
  bool require_memory_filesystem = true;
};

// All objects of one daemon. Names: [A-Za-z0-9._-], 1..100 characters, no leading dot; they say what the object is
// ("3.12.7-2.data").
// Threads: one at a time. Blocking: file-system calls, no I/O on tmpfs.
class ObjectStore {
 public:
  // VP_UNSUPPORTED when the directory is not on a memory file system, or on one that hands out huge folios.
  static Result<ObjectStore> open(const ObjectStoreOptions& options);

  // A new object of `bytes`, all hole. VP_EXISTS, VP_NO_SPACE.
  Result<SharedObject> create(std::string_view name, std::uint64_t bytes);
  // VP_NOT_FOUND.
  Result<SharedObject> open_existing(std::string_view name);
  // Sorted by name. On macOS an entry may name an object that was never made; open_existing says so.
  Result<std::vector<std::string>> list() const;
  // Removes the name; mappings keep the bytes until they go. No error when it is not there.
  Status remove(std::string_view name);
  // Memory all listed objects occupy now.
  std::uint64_t allocated_bytes() const;
  // Bytes that can still be reserved as far as the file system knows; UINT64_MAX when it sets no limit.
  std::uint64_t free_bytes() const;
  // Removes every object of this store, for `vrampoold --cleanup`. Returns how many.
  Result<std::size_t> cleanup();

  const std::string& directory() const { return directory_; }

 private:
  explicit ObjectStore(std::string directory) : directory_(std::move(directory)) {}
  std::string directory_;
};

// Mounts a tmpfs of its own (no huge folios, no device files, mode 0700) on `directory`, created when missing.
// Needs root on Linux: VP_DENIED. macOS: VP_UNSUPPORTED. Already a tmpfs mount of its own: resized.
Status mount_memory_filesystem(const std::string& directory, std::uint64_t bytes);
Status unmount_memory_filesystem(const std::string& directory);

// An unnamed object that dies with its last descriptor and mapping; its size can never change, so whoever receives it
// may map it without fear of SIGBUS. For fault rings and for data handed over once.
Result<SharedObject> create_unnamed_object(const char* label, std::uint64_t bytes);
// Takes a received descriptor of such an object. VP_INVALID when its size is not `bytes` or could still shrink.
Result<SharedObject> adopt_unnamed_object(UniqueFd fd, std::uint64_t bytes);

}  // namespace vrampool::platform
