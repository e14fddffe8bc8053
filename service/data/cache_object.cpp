#include "service/data/cache_object.h"

#include <string_view>

#include "service/data/landing.h"

namespace vrampool::service::data {

std::string cache_data_name(SegmentId id) { return to_text(id) + ".c"; }
std::string cache_meta_name(SegmentId id) { return to_text(id) + ".cm"; }

std::optional<SegmentId> parse_cache_meta_name(std::string_view name) {
  if (!name.ends_with(".cm")) return std::nullopt;
  name.remove_suffix(3);
  return parse_segment_id(name);
}

Result<CachePtr> CacheObject::create(platform::ObjectStore& store, SegmentId id, std::uint64_t bytes,
                                     platform::MachineId boot) {
  remove(store, id);
  VP_TRY(meta, store.create(cache_meta_name(id), PieceMeta::object_bytes(bytes)));
  auto data = store.create(cache_data_name(id), bytes);
  const auto undo = [&](Error why) {
    remove(store, id);
    return why;
  };
  if (!data) return undo(data.take_error());
  // Header and bitmap; the crc table of a cache is never used.
  const auto fixed = PieceMeta::crc_offset((bytes + kPageBytes - 1) / kPageBytes);
  if (auto s = meta.reserve(0, fixed); !s) return undo(s.take_error());
  if (auto s = meta.map(platform::MapUse::cache); !s) return undo(s.take_error());
  if (auto s = data->map(platform::MapUse::cache); !s) return undo(s.take_error());
  CachePtr cache(new CacheObject(std::move(*data), std::move(meta)));
  cache->meta_ = PieceMeta::format(cache->meta_object_.memory(),
                                   {.kind = MetaKind::cache, .segment = id, .bytes = bytes, .boot = boot});
  return cache;
}

Result<CachePtr> CacheObject::adopt(platform::ObjectStore& store, SegmentId id, platform::MachineId boot) {
  VP_TRY(meta_object, store.open_existing(cache_meta_name(id)));
  VP_CHECK(meta_object.map(platform::MapUse::cache));
  VP_TRY(meta, PieceMeta::open(meta_object.memory()));
  if (meta.header().kind != MetaKind::cache || meta.header().segment != id)
    return error(VP_CORRUPT, "the metadata of cache {} names another", to_text(id));
  if (meta.header().boot != boot) return error(VP_STALE, "cache {} is of an earlier boot", to_text(id));
  VP_TRY(data, store.open_existing(cache_data_name(id)));
  if (data.bytes() != meta.header().bytes)
    return error(VP_CORRUPT, "cache {} does not have the size its metadata says", to_text(id));
  VP_CHECK(data.map(platform::MapUse::cache));
  CachePtr cache(new CacheObject(std::move(data), std::move(meta_object)));
  cache->meta_ = meta;
  return cache;
}

void CacheObject::remove(platform::ObjectStore& store, SegmentId id) {
  (void)store.remove(cache_meta_name(id));
  (void)store.remove(cache_data_name(id));
}

void CacheObject::grant_resident() {
  MetaHeader h = meta_.header();
  if (std::exchange(h.granted_resident, true)) return;
  meta_.store(h);
}

void CacheObject::punch_invalid() {
  for (std::uint64_t p = 0; p < pages();) {
    const std::uint64_t next = meta_.run_end(p, pages());
    if (!meta_.valid(p)) (void)blank(data_, p * kPageBytes, (next - p) * kPageBytes);
    p = next;
  }
}

}  // namespace vrampool::service::data
