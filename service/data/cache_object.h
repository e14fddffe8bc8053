// The shared object in which remote pages of one segment appear on this node, and its metadata object.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "platform/shared_object.h"
#include "service/data/piece_meta.h"

namespace vrampool::service::data {

std::string cache_data_name(SegmentId);
std::string cache_meta_name(SegmentId);
// "3.12.7.cm" to its id.
std::optional<SegmentId> parse_cache_meta_name(std::string_view);

// Bytes land here from the engine and, for pages that their request owns, from movers. The engine alone sets and clears
// valid bits and punches. Threads: as said. Ownership: shared by the engine and the flights that land in it.
class CacheObject {
 public:
  static Result<std::shared_ptr<CacheObject>> create(platform::ObjectStore&, SegmentId, std::uint64_t bytes,
                                                     platform::MachineId boot);
  // What an earlier life of this daemon left; VP_STALE when it is of another boot.
  static Result<std::shared_ptr<CacheObject>> adopt(platform::ObjectStore&, SegmentId, platform::MachineId boot);
  static void remove(platform::ObjectStore&, SegmentId);

  SegmentId segment() const { return meta_.header().segment; }
  std::uint64_t bytes() const { return data_.bytes(); }
  std::uint64_t pages() const { return meta_.pages(); }
  std::span<const std::byte> view(std::uint64_t offset, std::uint64_t length) const {
    return std::span<const std::byte>(data_.memory()).subspan(offset, length);
  }
  PieceMeta& meta() { return meta_; }
  platform::SharedObject& data() { return data_; }

  // A client maps pages of it without a fault source: no page may go any more, only the whole object by unlink.
  bool granted_resident() const { return meta_.header().granted_resident; }
  void grant_resident();
  // Everything that is not valid reads as a hole again.
  void punch_invalid();

 private:
  CacheObject(platform::SharedObject data, platform::SharedObject meta_object)
      : data_(std::move(data)), meta_object_(std::move(meta_object)) {}
  platform::SharedObject data_;
  platform::SharedObject meta_object_;
  PieceMeta meta_;
};

using CachePtr = std::shared_ptr<CacheObject>;

}  // namespace vrampool::service::data
