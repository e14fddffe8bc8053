// Verify: every piece is read again from its host and compared with the hash that its record has kept since the seal.
#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "service/jobs.h"
#include "service/sha256.h"

namespace vrampool::service {
namespace {

constexpr std::size_t kVerifyChunkBytes = 4u << 20;
// From so many zero pages on, a piece's hash leaves them out: see data/piece_digest.h.
constexpr std::uint64_t kSparseZeroPages = (1ull << 30) / kPageBytes;

// Both hashes of a piece at once, as which one counts is known at its end.
class PieceHash {
 public:
  explicit PieceHash(std::uint64_t bytes) : bytes_(bytes), may_be_sparse_(bytes / kPageBytes >= kSparseZeroPages) {}
  void add(std::span<const std::byte> pages) {
    dense_.add(pages);
    for (; may_be_sparse_ && !pages.empty(); pages = pages.subspan(kPageBytes), ++page_)
      add_page(pages.first(kPageBytes));
  }
  std::vector<std::uint8_t> end() {
    if (zero_pages_ < kSparseZeroPages) return to_bytes(dense_.end());
    sparse_.add(std::as_bytes(std::span(&bytes_, 1)));
    return to_bytes(sparse_.end());
  }

 private:
  void add_page(std::span<const std::byte> page) {
    static const std::vector<std::byte> zeros(kPageBytes);
    if (std::memcmp(page.data(), zeros.data(), kPageBytes) == 0) {
      ++zero_pages_;
      return;
    }
    sparse_.add(std::as_bytes(std::span(&page_, 1)));
    sparse_.add(page);
  }
  std::uint64_t bytes_, page_ = 0, zero_pages_ = 0;
  bool may_be_sparse_;
  Sha256Stream dense_, sparse_;
};

std::string tensors_in(const wire::RecordT& r, std::uint64_t offset, std::uint64_t bytes) {
  std::string names;
  std::size_t count = 0;
  for (const auto& t : r.tensors) {
    if (t->offset >= offset + bytes || t->offset + t->bytes <= offset) continue;
    if (++count <= 3) names += (names.empty() ? "" : ", ") + t->name;
  }
  if (count == 0) return "no tensor";
  return count <= 3 ? names : fmt::format("{} and {} more", names, count - 3);
}

Error bad_piece(const Record& r, const wire::PieceT& p, std::uint64_t at, std::uint64_t bytes, vp_status code,
                const std::string& why) {
  return error(code, "piece {} of \"{}\" (member {}, bytes {} to {}; holds {}): {}", p.ordinal, r->name, p.node,
               p.offset, p.offset + p.bytes, tensors_in(*r, at, bytes), why);
}

Status verify_piece(BulkChannel& channel, Job& job, const Record& record, const wire::PieceT& piece) {
  if (piece.sha256.empty())
    return bad_piece(record, piece, piece.offset, piece.bytes, VP_CORRUPT, "its record has no hash");
  PieceHash hash(piece.bytes);
  std::vector<std::byte> buffer(kVerifyChunkBytes);
  for (std::uint64_t done = 0; done < piece.bytes;) {
    VP_CHECK(check_cancelled(job));
    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(kVerifyChunkBytes, piece.bytes - done));
    const auto bytes = std::span(buffer).first(n);
    if (const Status read = channel.read(record, piece.offset + done, bytes); !read)
      return bad_piece(record, piece, piece.offset + done, n, read.error().code, read.error().message);
    hash.add(bytes);
    done += n;
    job.done_bytes += n;
  }
  if (hash.end() != piece.sha256)
    return bad_piece(record, piece, piece.offset, piece.bytes, VP_CORRUPT, "its bytes do not match their hash");
  return {};
}

}  // namespace

Status run_verify(JobDesk& desk, Job& job) {
  VP_TRY(record, desk.find(job.name, job.who));
  job.total_bytes = record->bytes;
  VP_TRY(channel, desk.channel(job));
  Status first;
  for (const auto& piece : record->pieces) {
    if (piece->copy != 0) continue;  // reads go to the home copy
    const Status good = verify_piece(*channel, job, record, *piece);
    if (!good && good.error().code == VP_CANCELLED) return good.error();
    if (!good && first) first = good.error();
  }
  return first;
}

}  // namespace vrampool::service
