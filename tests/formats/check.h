// What the format tests share: parsing in growing steps, and errors that must name things.
#pragma once

#include <doctest/doctest.h>

#include "formats/tensor_table.h"
#include "samples.h"

namespace vrampool::formats {

// Feeds the parser exactly what it asks for, as a caller with a file does; counts the steps.
inline Result<TensorTable> parse_stepwise(Parser parse, std::span<const std::byte> file, int* steps = nullptr) {
  std::uint64_t have = 0;
  for (int step = 1;; ++step) {
    VP_TRY(got, parse(file.first(have), file.size(), "file"));
    if (steps != nullptr) *steps = step;
    if (std::holds_alternative<TensorTable>(got)) return std::get<TensorTable>(std::move(got));
    const std::uint64_t want = std::get<NeedBytes>(got).prefix_bytes;
    CHECK(want > have);
    REQUIRE(want <= file.size());
    have = want;
  }
}

struct BadFile {
  const char* what;
  samples::Bytes bytes;
  std::vector<const char*> words;  // all must be in the message
};

inline void check_refused(Parser parse, const BadFile& bad) {
  CAPTURE(bad.what);
  const auto table = parse_whole(parse, bad.bytes, "model.bin");
  REQUIRE_FALSE(table.ok());
  const std::string& message = table.error().message;
  CAPTURE(message);
  CHECK(message.starts_with("model.bin: "));
  CHECK(message.find('\n') == std::string::npos);
  for (const char* word : bad.words) CHECK_MESSAGE(message.find(word) != std::string::npos, word);
}

}  // namespace vrampool::formats
