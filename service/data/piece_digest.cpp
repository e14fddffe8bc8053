#include "service/data/piece_digest.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "service/data/piece.h"

namespace vrampool::service::data {
namespace {

class Hash {
 public:
  Hash() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    VP_ASSERT(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
  }
  void add(std::span<const std::byte> bytes) {
    VP_ASSERT(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
  }
  void add_number(std::uint64_t n) { add(std::as_bytes(std::span(&n, 1))); }
  Sha256 end() {
    Sha256 out{};
    VP_ASSERT(EVP_DigestFinal_ex(context_.get(), reinterpret_cast<unsigned char*>(out.data()), nullptr) == 1);
    return out;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context_;
};

bool is_zero(const Piece& piece, std::uint64_t page) {
  if (!piece.meta().valid(page)) return true;
  if (piece.meta().crc(page) != zero_page_crc()) return false;
  return std::memcmp(piece.view(page * kPageBytes, kPageBytes).data(), zero_page().data(), kPageBytes) == 0;
}

std::uint64_t count_zero_pages(const Piece& piece) {
  std::uint64_t n = 0;
  for (std::uint64_t p = 0; p < piece.pages();) {
    const std::uint64_t next = piece.meta().run_end(p, piece.pages());
    if (!piece.meta().valid(p))
      n += next - p;
    else
      for (std::uint64_t q = p; q < next; ++q) n += is_zero(piece, q) ? 1 : 0;
    p = next;
  }
  return n;
}

Sha256 hash_sparse(const Piece& piece) {
  Hash hash;
  for (std::uint64_t p = 0; p < piece.pages();) {
    const std::uint64_t next = piece.meta().run_end(p, piece.pages());
    for (std::uint64_t q = p; q < next && piece.meta().valid(p); ++q) {
      if (is_zero(piece, q)) continue;
      hash.add_number(q);
      hash.add(piece.view(q * kPageBytes, kPageBytes));
    }
    p = next;
  }
  hash.add_number(piece.bytes());
  return hash.end();
}

Sha256 hash_dense(const Piece& piece) {
  Hash hash;
  for (std::uint64_t p = 0; p < piece.pages(); ++p)
    hash.add(piece.meta().valid(p) ? piece.view(p * kPageBytes, kPageBytes) : std::span<const std::byte>(zero_page()));
  return hash.end();
}

}  // namespace

Sha256 piece_digest(const Piece& piece) {
  return count_zero_pages(piece) >= kSparseZeroPages ? hash_sparse(piece) : hash_dense(piece);
}

}  // namespace vrampool::service::data
