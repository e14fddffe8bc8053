// GGUF: versions, types, alignment, splits; damaged files are refused with a line that says why.
#include "formats/gguf.h"

#include "check.h"

using namespace vrampool;
using namespace vrampool::formats;
using samples::Bytes;
using samples::GgufOptions;

namespace {

Result<TensorTable> parse(const Bytes& b) { return parse_whole(parse_gguf, b, "model.gguf"); }

// A header with one tensor entry of any values, and 256 bytes of data.
Bytes one_tensor(const samples::Tensor& t, std::uint32_t type_id, std::uint64_t offset, const GgufOptions& o = {}) {
  Bytes out = samples::gguf_preamble(1, o);
  samples::put_tensor_info(out, t, type_id, offset);
  samples::pad(out, o.alignment);
  out.resize(out.size() + 256);
  return out;
}
// A header with one metadata pair whose value is `value`, and no tensor.
Bytes one_pair(const std::string& key, std::uint32_t type, const Bytes& value) {
  Bytes out;
  samples::put(out, "GGUF", 4);
  samples::put_number<std::uint32_t>(out, 3);
  samples::put_number<std::uint64_t>(out, 0);
  samples::put_number<std::uint64_t>(out, 1);
  samples::put_string(out, key);
  samples::put_number<std::uint32_t>(out, type);
  samples::put(out, value.data(), value.size());
  return out;
}
template <class... T>
Bytes numbers(T... values) {
  Bytes out;
  (samples::put_number(out, values), ...);
  return out;
}
Bytes counts(std::uint64_t tensors, std::uint64_t keys) {
  Bytes out;
  samples::put(out, "GGUF", 4);
  samples::put_number<std::uint32_t>(out, 3);
  samples::put_number(out, tensors);
  samples::put_number(out, keys);
  return out;
}
Bytes with_version(std::uint32_t version) { return samples::write_gguf({{"a", "F32", {1}}}, {.version = version}); }
Bytes two_at(std::uint64_t first, std::uint64_t second, const char* second_name = "w") {
  Bytes out = samples::gguf_preamble(2, {});
  samples::put_tensor_info(out, {"v", "F32", {16}}, 0, first);
  samples::put_tensor_info(out, {second_name, "F32", {16}}, 0, second);
  samples::pad(out, 32);
  out.resize(out.size() + 256);
  return out;
}

}  // namespace

TEST_CASE("versions 2 and 3 with every value type are read") {
  for (const std::uint32_t version : {2u, 3u}) {
    const auto file = samples::write_gguf({{"tok", "F16", {10, 64}}, {"blk", "Q4_K", {3, 512}}},
                                          {.version = version, .vocabulary = true});
    const auto table = parse(file);
    REQUIRE(table.ok());
    CHECK(table->format == "gguf");
    REQUIRE(table->tensors.size() == 2);
    const auto& blk = table->tensors[1];
    CHECK(blk.type_name == "Q4_K");
    CHECK(blk.dtype == wire::Dtype::quantized);
    CHECK(blk.shape == std::vector<std::uint64_t>{3, 512});
    CHECK(blk.bytes == 3 * 2 * 144);
    CHECK(blk.file_offset == table->data_offset + 10 * 64 * 2);
  }
}

TEST_CASE("every ggml type has its block size") {
  for (const auto& type : ggml_types()) {
    CAPTURE(type.name);
    const auto table = parse(samples::write_gguf({{"t", type.name, {2, 3ull * type.block_elements}}}));
    REQUIRE(table.ok());
    CHECK(table->tensors[0].bytes == 6ull * type.block_bytes);
    CHECK(table->tensors[0].type_name == type.name);
  }
}

TEST_CASE("general.alignment moves the data") {
  const auto table = parse(samples::write_gguf({{"a", "F32", {1}}, {"b", "F32", {1}}}, {.alignment = 16384}));
  REQUIRE(table.ok());
  CHECK(table->data_offset % 16384 == 0);
  CHECK(table->tensors[1].file_offset == table->data_offset + 16384);
}

TEST_CASE("gaps between tensors are allowed") {
  CHECK(parse(two_at(0, 128)).ok());
  CHECK(parse(two_at(128, 0)).ok());
}

TEST_CASE("a long header is read in few steps") {
  Bytes tokens = numbers<std::uint32_t, std::uint64_t>(8, 400'000);
  for (int i = 0; i < 400'000; ++i) samples::put_string(tokens, "token");
  const auto file = one_pair("tokenizer.ggml.tokens", 9, tokens);
  int steps = 0;
  REQUIRE(parse_stepwise(parse_gguf, file, &steps).ok());
  CHECK(steps <= 6);
}

TEST_CASE("bad GGUF files are refused with a line that names what is wrong") {
  const samples::Tensor w{"w", "F32", {4}};
  auto cut = samples::write_gguf({{"first", "F32", {64}}, {"second", "F32", {64}}});
  cut.resize(cut.size() - 100);
  auto header_cut = samples::gguf_preamble(1, {});
  Bytes deep;
  for (int i = 0; i < 50; ++i) {
    samples::put_number<std::uint32_t>(deep, 9);
    samples::put_number<std::uint64_t>(deep, 1);
  }
  Bytes lfs;
  samples::put(lfs, "version https://git-lfs", 23);
  const std::vector<BadFile> files{
      {"empty", {}, {"cut short"}},
      {"three bytes", Bytes(3), {"cut short"}},
      {"wrong magic", Bytes(64), {"wrong magic"}},
      {"pointer of git lfs", lfs, {"git lfs pull"}},
      {"version 1", with_version(1), {"version 1"}},
      {"version 4", with_version(4), {"version 4"}},
      {"big-endian", with_version(0x03000000), {"big-endian"}},
      {"header cut", header_cut, {"cut short"}},
      {"data cut", cut, {"second", "cut short"}},
      {"2^60 tensors", counts(1ull << 60, 0), {"tensors are more than"}},
      {"2^60 keys", counts(0, 1ull << 60), {"metadata keys are more than"}},
      {"key of 2^40 bytes", one_pair("", 8, {}), {"cut short"}},
      {"unknown value type", one_pair("k", 13, Bytes(8)), {"\"k\"", "value type 13"}},
      {"string of 2^63 bytes", one_pair("k", 8, numbers<std::uint64_t>(1ull << 63)), {"cut short"}},
      {"array of 2^62 numbers", one_pair("k", 9, numbers<std::uint32_t, std::uint64_t>(10, 1ull << 62)), {"cut short"}},
      {"array of 2^62 strings", one_pair("k", 9, numbers<std::uint32_t, std::uint64_t>(8, 1ull << 62)), {"cut short"}},
      {"array of unknown type",
       one_pair("k", 9, numbers<std::uint32_t, std::uint64_t>(99, 1)),
       {"\"k\"", "unknown type 99"}},
      {"arrays in arrays", one_pair("k", 9, deep), {"\"k\"", "deeper"}},
      {"alignment 0", one_pair("general.alignment", 4, numbers<std::uint32_t>(0)), {"general.alignment is 0"}},
      {"alignment 24", one_pair("general.alignment", 4, numbers<std::uint32_t>(24)), {"general.alignment is 24"}},
      {"alignment 2^31", one_pair("general.alignment", 4, numbers<std::uint32_t>(1u << 31)), {"general.alignment"}},
      {"alignment of 64 bits",
       one_pair("general.alignment", 10, numbers<std::uint64_t>(32)),
       {"general.alignment", "32-bit"}},
      {"five dimensions", one_tensor({"w", "F32", {1, 1, 1, 1, 1}}, 0, 0), {"w", "5 dimensions"}},
      {"shape overflows", one_tensor({"w", "F32", {1ull << 33, 1ull << 33}}, 0, 0), {"w", "larger than 64 bits"}},
      {"bytes overflow", one_tensor({"w", "F64", {1ull << 62}}, 28, 0), {"w", "larger than 64 bits"}},
      {"row is no block", one_tensor({"w", "Q4_K", {2, 128}}, 12, 0), {"w", "128 elements", "Q4_K", "256"}},
      {"unknown type", one_tensor(w, 77, 0), {"w", "ggml type 77"}},
      {"retired type", one_tensor(w, 4, 0), {"w", "ggml type 4"}},
      {"offset not aligned", one_tensor(w, 0, 8), {"w", "offset 8", "alignment 32"}},
      {"offset behind the file", one_tensor(w, 0, 4096), {"w", "behind the file"}},
      {"huge offset", one_tensor(w, 0, ~0ull - 31), {"w", "out of range"}},
      {"overlap", two_at(0, 32), {"w", "overlaps", "v"}},
      {"name twice", two_at(0, 64, "v"), {"\"v\"", "twice"}},
      {"empty name", one_tensor({"", "F32", {4}}, 0, 0), {"printable"}},
      {"name with an escape", one_tensor({"w\x1b[2J", "F32", {4}}, 0, 0), {"w?[2J", "printable"}},
      {"part 3 of 2", samples::write_gguf({}, {.split_no = 2, .split_count = 2}), {"split.no 2", "split.count 2"}},
  };
  for (const auto& bad : files) {
    if (std::string_view(bad.what) == "key of 2^40 bytes") {
      auto long_key = bad;
      std::memset(long_key.bytes.data() + 24 + 5, 1, 1);  // the key's length
      long_key.words = {"metadata key", "65535"};
      check_refused(parse_gguf, long_key);
    } else {
      check_refused(parse_gguf, bad);
    }
  }
}

TEST_CASE("the names of a split follow from any of its parts") {
  const std::vector<std::string> three{"m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"};
  CHECK(gguf_split_names("m-00001-of-00003.gguf") == three);
  CHECK(gguf_split_names("m-00003-of-00003.gguf") == three);
  for (const char* other : {"m.gguf", "m-00004-of-00003.gguf", "m-00000-of-00003.gguf", "m-00001-of-99999.gguf",
                            "m-0000a-of-00003.gguf", "-00001-of-00003.gguf", ""})
    CHECK(gguf_split_names(other).empty());
}

TEST_CASE("the parts of a split must belong together") {
  const auto part = [](std::uint16_t no, std::uint16_t count, std::int32_t tensors) {
    return *parse(samples::write_gguf({{"t" + std::to_string(no), "F32", {1}}},
                                      {.split_no = no, .split_count = count, .split_tensors = tensors}));
  };
  CHECK(check_gguf_split(std::vector{part(0, 2, 2), part(1, 2, 2)}).ok());
  CHECK(check_gguf_split(std::vector{*parse(samples::write_gguf({}))}).ok());
  CHECK(check_gguf_split(std::vector{part(1, 2, 2), part(0, 2, 2)}).error().message.find("says that it is part 2") !=
        std::string::npos);
  CHECK(check_gguf_split(std::vector{part(0, 3, 2), part(1, 3, 2)}).error().message.find("3 parts") !=
        std::string::npos);
  CHECK(check_gguf_split(std::vector{part(0, 2, 3), part(1, 2, 3)}).error().message.find("hold 3 tensors") !=
        std::string::npos);
}
