// SHA-256, piece by piece.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

struct evp_md_ctx_st;

namespace vrampool::service {

class Sha256Stream {
 public:
  Sha256Stream();
  ~Sha256Stream();
  Sha256Stream(Sha256Stream&&) noexcept = default;
  void add(std::span<const std::byte> bytes);
  std::array<std::byte, 32> end();

 private:
  struct Free {
    void operator()(evp_md_ctx_st*) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

std::vector<std::uint8_t> to_bytes(const std::array<std::byte, 32>& hash);
std::string hex_text(std::span<const std::uint8_t> bytes);

}  // namespace vrampool::service
