// safetensors: what the format's own library accepts is read, what it refuses is refused with a line that says why.
#include "formats/safetensors.h"

#include "check.h"

using namespace vrampool;
using namespace vrampool::formats;
using samples::Bytes;

namespace {

Bytes zeros(std::size_t n) { return Bytes(n); }
Bytes with_header(const std::string& header, std::size_t data) {
  return samples::safetensors_file(header, zeros(data));
}
Bytes text(std::string_view s) {
  Bytes out;
  samples::put(out, s.data(), s.size());
  return out;
}
Bytes length_only(std::uint64_t n, std::size_t rest) {
  Bytes out;
  samples::put_number(out, n);
  out.resize(out.size() + rest, std::byte{' '});
  return out;
}
Result<TensorTable> parse(const Bytes& b) { return parse_whole(parse_safetensors, b, "model.safetensors"); }

}  // namespace

TEST_CASE("names, types, shapes and offsets are read") {
  const auto file = samples::write_safetensors(
      {{"w", "BF16", {4, 8}}, {"scalar", "F32", {}}, {"empty", "F32", {0, 7}}, {"q", "F4", {32}}});
  const auto table = parse(file);
  REQUIRE(table.ok());
  CHECK(table->format == "safetensors");
  REQUIRE(table->tensors.size() == 4);
  const auto& w = table->tensors[0];
  CHECK(w.name == "w");
  CHECK(w.dtype == wire::Dtype::bf16);
  CHECK(w.type_name == "BF16");
  CHECK(w.shape == std::vector<std::uint64_t>{4, 8});
  CHECK(w.file_offset == table->data_offset);
  CHECK(w.bytes == 64);
  CHECK(table->tensors[1].bytes == 4);
  CHECK(table->tensors[2].bytes == 0);
  CHECK(table->tensors[3].bytes == 16);
  CHECK(table->tensors[3].dtype == wire::Dtype::quantized);
}

TEST_CASE("a reader with a file needs two reads") {
  const auto file = samples::write_safetensors({{"w", "F32", {100000}}});
  int steps = 0;
  REQUIRE(parse_stepwise(parse_safetensors, file, &steps).ok());
  CHECK(steps == 2);
}

TEST_CASE("tensors may stand in any order in the header") {
  const auto table = parse(with_header(
      R"({"b":{"data_offsets":[4,8],"shape":[1],"dtype":"F32"},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
      8));
  REQUIRE(table.ok());
  CHECK(table->tensors[0].name == "a");
}

TEST_CASE("fields of later versions are passed over") {
  const auto table = parse(with_header(
      R"({"a":{"dtype":"F32","new":{"x":[1,{"y":null}],"z":-1.5},"also":true,"shape":[1],"data_offsets":[0,4]}})", 4));
  CHECK(table.ok());
}

TEST_CASE("a file without tensors is a file") { CHECK(parse(with_header(R"({"__metadata__":{"a":"b"}})", 0)).ok()); }

TEST_CASE("bad safetensors files are refused with a line that names what is wrong") {
  const auto good = samples::write_safetensors({{"first", "F32", {4}}, {"second", "F32", {4}}});
  auto cut = good;
  cut.resize(cut.size() - 5);
  auto longer = good;
  longer.resize(longer.size() + 3);
  const std::vector<BadFile> files{
      {"empty", {}, {"too short"}},
      {"seven bytes", zeros(7), {"too short"}},
      {"cut in the data", cut, {"second", "cut short"}},
      {"bytes behind the end", longer, {"3 bytes behind the last tensor"}},
      {"header of 2^63 bytes", length_only(1ull << 63, 100), {"no safetensors file"}},
      {"header beyond the file", length_only(1000, 100), {"header", "1000", "cut short"}},
      {"pointer of git lfs",
       text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n"),
       {"git lfs pull"}},
      {"header is no JSON", with_header("{\"a\": nonsense}", 0), {"not valid JSON"}},
      {"header is a list", with_header("[]", 0), {"an array instead of an object"}},
      {"header is a number", with_header("17", 0), {"a number instead of an object"}},
      {"text behind the JSON", with_header("{} x", 0), {"not valid JSON"}},
      {"header ends early", with_header("{\"a\":{\"dtype\":\"F32\"", 0), {"not valid JSON"}},
      {"header nests without end", with_header(R"({"a":{"x":)" + std::string(1000, '['), 0), {"not valid JSON"}},
      {"not UTF-8", with_header("{\"\xff\":{}}", 0), {"not valid JSON"}},
      {"tensor is a number", with_header(R"({"w":5})", 0), {"w", "a number"}},
      {"tensor is empty", with_header(R"({"w":{}})", 0), {"w", "lacks"}},
      {"no offsets", with_header(R"({"w":{"dtype":"F32","shape":[1]}})", 4), {"w", "lacks"}},
      {"one offset", with_header(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4), {"w", "lacks"}},
      {"three offsets",
       with_header(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", 4),
       {"w", "more than two"}},
      {"offsets backwards",
       with_header(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4),
       {"w", "backwards"}},
      {"negative offset",
       with_header(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}})", 4),
       {"w", "a negative number"}},
      {"fractional shape",
       with_header(R"({"w":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", 4),
       {"w", "a fraction"}},
      {"huge offset",
       with_header(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[18446744073709551611,18446744073709551615]}})",
                   4),
       {"w", "out of range"}},
      {"offset behind the file",
       with_header(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[100,104]}})", 4),
       {"w", "behind the file"}},
      {"unknown type",
       with_header(R"({"w":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})", 4),
       {"w", "unknown dtype", "F31"}},
      {"type is a number", with_header(R"({"w":{"dtype":4,"shape":[1],"data_offsets":[0,4]}})", 4), {"w", "a number"}},
      {"shape does not fit",
       with_header(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4),
       {"w", "64 bits", "4 bytes"}},
      {"half a byte", with_header(R"({"w":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}})", 1), {"w", "12 bits"}},
      {"shape overflows",
       with_header(R"({"w":{"dtype":"U8","shape":[4294967296,4294967296,2],"data_offsets":[0,0]}})", 0),
       {"w", "larger than 64 bits"}},
      {"shape times size overflows",
       with_header(R"({"w":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]}})", 0),
       {"w", "larger than 64 bits"}},
      {"nine dimensions",
       with_header(R"({"w":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}})", 1),
       {"w", "more than 8 dimensions"}},
      {"name twice",
       with_header(
           R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"w":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
           2),
       {"w", "twice"}},
      {"field twice",
       with_header(R"({"w":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1),
       {"w", "dtype twice"}},
      {"overlap",
       with_header(
           R"({"v":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"w":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
           6),
       {"w", "overlaps", "v"}},
      {"hole",
       with_header(
           R"({"v":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"w":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
           3),
       {"a hole of 1 bytes", "w"}},
      {"hole at the start", with_header(R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2), {"hole", "w"}},
      {"name with an escape",
       with_header("{\"w\\u001b[2J\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1),
       {"w?[2J", "printable"}},
      {"name of 300 characters",
       with_header("{\"" + std::string(300, 'n') + R"(":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1),
       {"nnn...", "255"}},
      {"metadata is a list", with_header(R"({"__metadata__":["x"]})", 0), {"__metadata__", "an array"}},
  };
  for (const auto& bad : files) check_refused(parse_safetensors, bad);
}

TEST_CASE("an index says which shard holds which tensor") {
  const auto index = parse_safetensors_index(
      samples::write_index({{"a", "m-2.safetensors"}, {"b", "m-1.safetensors"}, {"c", "m-2.safetensors"}}), "index");
  REQUIRE(index.ok());
  CHECK(index->files == std::vector<std::string>{"m-1.safetensors", "m-2.safetensors"});
  CHECK(index->tensor_file.at("a") == 1);
  CHECK(index->tensor_file.at("b") == 0);
}

TEST_CASE("bad indices are refused with a line that names what is wrong") {
  struct Case {
    const char* json;
    const char* word;
  };
  for (const auto& c :
       {Case{R"({"weight_map":{"t":"../other.safetensors"}})", "not the name of a file beside"},
        Case{R"({"weight_map":{"t":"/etc/passwd"}})", "not the name of a file beside"},
        Case{R"({"weight_map":{"t":"..\\x"}})", "not the name of a file beside"},
        Case{R"({"weight_map":{"t":".."}})", "not the name of a file beside"},
        Case{R"({"weight_map":{"t":""}})", "not the name of a file beside"},
        Case{R"({"weight_map":{"t":"a","t":"b"}})", "twice"}, Case{R"({"weight_map":{"t":7}})", "a number"},
        Case{R"({"weight_map":{"t":["a"]}})", "an array"}, Case{R"({"weight_map":"a"})", "a string"},
        Case{R"({"metadata":{}})", "no weight_map"}, Case{R"([])", "an array"},
        Case{R"({"weight_map":)", "not valid JSON"}, Case{"", "not valid JSON"}}) {
    CAPTURE(c.json);
    const auto index = parse_safetensors_index(text(c.json), "index.json");
    REQUIRE_FALSE(index.ok());
    CAPTURE(index.error().message);
    CHECK(index.error().message.find(c.word) != std::string::npos);
  }
}

TEST_CASE("shards are held against their index") {
  const auto index = parse_safetensors_index(samples::write_index({{"a", "1"}, {"b", "2"}}), "index");
  REQUIRE(index.ok());
  const auto file = [](const char* name) { return *parse(samples::write_safetensors({{name, "F32", {1}}})); };
  const auto none = *parse(samples::write_safetensors({}));
  CHECK(check_against_index(*index, std::vector{file("a"), file("b")}).ok());
  CHECK(check_against_index(*index, std::vector{file("b"), file("a")}).error().message.find("does not say so") !=
        std::string::npos);
  CHECK(check_against_index(*index, std::vector{file("a"), none}).error().message.find("\"b\" is missing") !=
        std::string::npos);
  CHECK_FALSE(check_against_index(*index, std::vector{file("a"), file("c")}).ok());
}
