// A piece on its host: the data object, its metadata object, and the gate that decides which writes still count.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "membership/write_gate.h"
#include "platform/shared_object.h"
#include "service/data/piece_meta.h"
#include "service/data_plane.h"

namespace vrampool::service::data {

// The names of a piece's two objects.
std::string piece_data_name(PieceId);
std::string piece_meta_name(PieceId);

// Writes are applied in state creating only, for the piece's own token, once per (sender, request); freeze() refuses
// new ones and waits for those that are being applied. A page that is not valid reads as zero: it was never written,
// or what was half written has been taken back.
// Threads: any. Ownership: shared by every loop that serves it; memory goes when the last one lets go.
class Piece : public std::enable_shared_from_this<Piece> {
 public:
  static Result<std::shared_ptr<Piece>> create(platform::ObjectStore&, const MetaHeader&);
  // VP_CORRUPT, VP_UNSUPPORTED, VP_STALE (of another boot): not ours to serve.
  static Result<std::shared_ptr<Piece>> adopt(platform::ObjectStore&, PieceId, platform::MachineId boot);

  PieceId id() const { return {meta_.header().segment, meta_.header().ordinal}; }
  std::uint64_t segment_offset() const { return meta_.header().segment_offset; }
  std::uint64_t bytes() const { return data_.bytes(); }
  std::uint64_t pages() const { return meta_.pages(); }
  std::uint64_t token() const { return meta_.header().token; }
  PieceState state() const { return state_.load(std::memory_order_acquire); }
  const PieceMeta& meta() const { return meta_; }
  PieceReport report() const;

  // Bytes of valid pages. REQUIRES: state is frozen or sealed, pages are valid (a load from a hole costs a page).
  std::span<const std::byte> view(std::uint64_t offset, std::uint64_t bytes) const {
    return std::span<const std::byte>(data_.memory()).subspan(offset, bytes);
  }
  // Copies any range; pages that are not valid give zeros.
  void copy_out(std::uint64_t offset, std::span<std::byte> into) const;
  // True if every page of the range is valid.
  bool whole(std::uint64_t first_page, std::uint64_t count) const {
    return meta_.valid(first_page) && meta_.run_end(first_page, first_page + count) == first_page + count;
  }
  std::uint32_t crc(std::uint64_t page) const { return meta_.valid(page) ? meta_.crc(page) : zero_page_crc(); }
  Result<UniqueFd> read_only_descriptor() const { return data_.read_only_descriptor(); }

  // Whole pages whose crc the caller has checked. A repeated (sender, request) succeeds and changes nothing. Numbers of
  // one sender rise, whatever way they take.
  // Errors: VP_DENIED (token), VP_STALE (frozen), VP_NO_SPACE (nothing of it stays), VP_BUSY (the same request is
  // being applied), VP_INVALID (range).
  Status write_pages(Sender, RequestNo, std::uint64_t token, std::uint64_t offset, std::span<const std::byte> bytes,
                     std::span<const std::uint32_t> crcs);
  // Any range, by a local writer.
  Status write_part(std::uint64_t token, std::uint64_t offset, std::span<const std::byte> bytes);

  // Blocking: until the writes that are being applied are done (milliseconds). Again: succeeds.
  Status freeze(std::uint64_t token);
  Status seal();
  // SHA-256 over the bytes, see piece_digest.h; remembered. REQUIRES: frozen or sealed. Blocking: about 1 s per GiB
  // that is not zero.
  Sha256 digest();

 private:
  // Far more than writers keep open at once, so that an old number surely is a repeated one.
  static constexpr std::size_t kWriteWindow = 1 << 16;

  Piece(platform::SharedObject data, platform::SharedObject meta_object, std::uint64_t token)
      : data_(std::move(data)), meta_object_(std::move(meta_object)), gate_(token, kWriteWindow) {}
  Status check_range(std::uint64_t offset, std::uint64_t bytes) const;
  Status reserve_crcs(std::uint64_t first_page, std::uint64_t count);
  Error refusal(membership::WriteVerdict) const;
  Status apply(std::uint64_t offset, std::span<const std::byte> bytes, std::span<const std::uint32_t> crcs);
  void take_back(std::uint64_t first_page, std::uint64_t count);
  void set_state(PieceState);

  platform::SharedObject data_;
  platform::SharedObject meta_object_;
  PieceMeta meta_;
  std::atomic<PieceState> state_{PieceState::creating};

  std::mutex mutex_;
  std::condition_variable quiet_;
  membership::WriteGate gate_;
  std::vector<bool> crcs_reserved_;
  std::optional<Sha256> digest_;
};

using PiecePtr = std::shared_ptr<Piece>;

}  // namespace vrampool::service::data
