#include "cli/demo/model.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <vector>

#include "cli/c_file.h"

namespace vrampool::cli {
namespace {

struct Shape {
  std::string name;
  std::uint64_t rows, columns;
  std::uint64_t bytes() const { return rows * columns * 2; }
};

// Layers of four matrices and a norm, as transformers have them; the sizes are odd on purpose.
std::vector<Shape> shapes(std::uint64_t bytes) {
  std::vector<Shape> out;
  std::uint64_t sum = 0;
  for (int layer = 0; sum < bytes; ++layer) {
    for (const Shape& s :
         {Shape{"norm.weight", 1, 1025}, Shape{"attn.qkv.weight", 3072, 1024}, Shape{"attn.out.weight", 1024, 1024},
          Shape{"mlp.up.weight", 2731, 1024}, Shape{"mlp.down.weight", 1024, 2731}}) {
      out.push_back({fmt::format("layers.{}.{}", layer, s.name), s.rows, s.columns});
      sum += s.bytes();
    }
  }
  return out;
}

std::string header(const std::vector<Shape>& all) {
  std::string json = "{";
  std::uint64_t at = 0;
  for (const Shape& s : all) {
    json += fmt::format("{}\"{}\":{{\"dtype\":\"BF16\",\"shape\":[{},{}],\"data_offsets\":[{},{}]}}",
                        at == 0 ? "" : ",", s.name, s.rows, s.columns, at, at + s.bytes());
    at += s.bytes();
  }
  json += "}";
  json.resize((json.size() + 7) / 8 * 8, ' ');
  return json;
}

// splitmix64: every page differs from every other.
std::uint64_t next(std::uint64_t& state) {
  std::uint64_t z = (state += 0x9e3779b97f4a7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

bool write_body(std::FILE* f, std::uint64_t bytes) {
  std::vector<std::uint64_t> chunk(1 << 17);
  std::uint64_t state = 7;
  while (bytes > 0) {
    for (std::uint64_t& word : chunk) word = next(state);
    const std::uint64_t n = std::min<std::uint64_t>(bytes, chunk.size() * 8);
    if (std::fwrite(chunk.data(), 1, n, f) != n) return false;
    bytes -= n;
  }
  return true;
}

}  // namespace

Status write_demo_model(const std::string& path, std::uint64_t bytes) {
  const CFile file(std::fopen(path.c_str(), "wb"));
  if (!file) return error_errno(errno, path);
  const std::vector<Shape> all = shapes(bytes);
  const std::string json = header(all);
  const std::uint64_t length = json.size();
  std::uint64_t body = 0;
  for (const Shape& s : all) body += s.bytes();
  const bool written = std::fwrite(&length, 8, 1, file.get()) == 1 &&
                       std::fwrite(json.data(), json.size(), 1, file.get()) == 1 && write_body(file.get(), body) &&
                       std::fflush(file.get()) == 0;
  return written ? Status() : Status(error_errno(errno, path));
}

}  // namespace vrampool::cli
