// SHA-256 through OpenSSL.
#include "service/sha256.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include "base/assert.h"

namespace vrampool::service {

void Sha256Stream::Free::operator()(evp_md_ctx_st* c) const { EVP_MD_CTX_free(c); }

Sha256Stream::Sha256Stream() : context_(EVP_MD_CTX_new()) {
  VP_ASSERT(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
}
Sha256Stream::~Sha256Stream() = default;

void Sha256Stream::add(std::span<const std::byte> bytes) {
  VP_ASSERT(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
}

std::array<std::byte, 32> Sha256Stream::end() {
  std::array<std::byte, 32> out{};
  VP_ASSERT(EVP_DigestFinal_ex(context_.get(), reinterpret_cast<unsigned char*>(out.data()), nullptr) == 1);
  return out;
}

std::vector<std::uint8_t> to_bytes(const std::array<std::byte, 32>& hash) {
  const auto* p = reinterpret_cast<const std::uint8_t*>(hash.data());
  return {p, p + hash.size()};
}

std::string hex_text(std::span<const std::uint8_t> bytes) {
  std::string out;
  for (const std::uint8_t b : bytes) out += fmt::format("{:02x}", b);
  return out;
}

}  // namespace vrampool::service
