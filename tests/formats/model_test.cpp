// The plan of a segment: pages, cut points, and byte-exact export through the ranges.
#include "formats/model.h"

#include "check.h"
#include "formats/safetensors.h"
#include "image.h"

using namespace vrampool;
using namespace vrampool::formats;
using samples::Bytes;
using wire::LayoutMode;

namespace {

ParsedFile parsed(const char* name, const Bytes& file) {
  return {name, *parse_whole(std::string_view(name).ends_with(".gguf") ? parse_gguf : parse_safetensors, file, name)};
}
std::string refusal(const std::vector<ParsedFile>& files) {
  const auto plan = plan_segment(files, LayoutMode::aligned);
  REQUIRE_FALSE(plan.ok());
  return plan.error().message;
}

}  // namespace

TEST_CASE("aligned: every tensor starts on a page and cuts part none") {
  const auto file =
      samples::write_safetensors({{"a", "U8", {20000}}, {"b", "U8", {10}}, {"c", "U8", {0}}, {"d", "U8", {16384}}});
  const auto plan = plan_segment({parsed("m.safetensors", file)}, LayoutMode::aligned);
  REQUIRE(plan.ok());
  CHECK(plan->format == "safetensors");
  REQUIRE(plan->tensors.size() == 4);
  for (const auto& t : plan->tensors) CHECK(t.offset % kPageBytes == 0);
  // header page, a (2), b (1), d (1)
  CHECK(plan->bytes == 5 * kPageBytes);
  CHECK(plan->cut_points == std::vector<std::uint64_t>{kPageBytes, 3 * kPageBytes, 4 * kPageBytes});
  CHECK(exports_exactly(*plan, {file}));
}

TEST_CASE("file: the segment is the files' images, each from a page on") {
  const auto one = samples::write_gguf({{"a", "F32", {9000}}, {"b", "F32", {9000}}});
  const auto two = samples::write_gguf({{"c", "F32", {10}}});
  const auto plan = plan_segment({parsed("1.gguf", one), parsed("2.gguf", two)}, LayoutMode::file);
  REQUIRE(plan.ok());
  REQUIRE(plan->ranges.size() == 2);
  CHECK(plan->ranges[0].segment_offset == 0);
  CHECK(plan->ranges[0].bytes == one.size());
  CHECK(plan->ranges[1].segment_offset == (one.size() + kPageBytes - 1) / kPageBytes * kPageBytes);
  CHECK(exports_exactly(*plan, {one, two}));
  const auto image = segment_image(*plan, {one, two});
  for (const auto& t : plan->tensors) CHECK(samples::has_content(std::span(image).subspan(t.offset, t.bytes), t.name));
}

TEST_CASE("neighbouring ranges are one range") {
  const auto file =
      samples::write_safetensors({{"a", "U8", {kPageBytes}}, {"b", "U8", {2 * kPageBytes}}, {"c", "U8", {5}}});
  const auto plan = plan_segment({parsed("m.safetensors", file)}, LayoutMode::aligned);
  REQUIRE(plan.ok());
  CHECK(plan->ranges.size() == 2);  // header; all three tensors
}

TEST_CASE("files without tensors go along with a model") {
  const auto model = samples::write_safetensors({{"a", "U8", {5}}});
  const Bytes config(777, std::byte{'c'});
  for (const auto layout : {LayoutMode::aligned, LayoutMode::file}) {
    const auto plan = plan_segment({{"config.json", attachment_table(777)}, parsed("m.safetensors", model)}, layout);
    REQUIRE(plan.ok());
    CHECK(plan->format == "safetensors");
    CHECK(plan->tensors.size() == 1);
    CHECK(exports_exactly(*plan, {config, model}));
  }
}

TEST_CASE("a raw file and an empty file have plans") {
  for (const std::uint64_t bytes : {0ull, 1ull, 16384ull, 16385ull}) {
    const auto plan = plan_segment({{"blob", raw_table("blob", bytes)}}, LayoutMode::aligned);
    REQUIRE(plan.ok());
    CHECK(plan->bytes == std::max<std::uint64_t>(1, (bytes + kPageBytes - 1) / kPageBytes) * kPageBytes);
    CHECK(exports_exactly(*plan, {Bytes(bytes, std::byte{7})}));
  }
}

TEST_CASE("what cannot be one segment is refused by name") {
  const auto a = parsed("a.safetensors", samples::write_safetensors({{"same", "F32", {1}}}));
  const auto b = parsed("b.safetensors", samples::write_safetensors({{"same", "F32", {1}}}));
  const auto g = parsed("g.gguf", samples::write_gguf({{"other", "F32", {1}}}));
  CHECK(refusal({}).find("no file") != std::string::npos);
  CHECK(refusal({a, b}).find("tensor \"same\" is in \"a.safetensors\" and in \"b.safetensors\"") != std::string::npos);
  CHECK(refusal({a, g}).find("two segments") != std::string::npos);
  CHECK(refusal({{"big", raw_table("big", ~0ull)}}).find("larger than") != std::string::npos);
  CHECK(refusal({{"x", raw_table("x", 1ull << 47)}, {"y", raw_table("y", 1ull << 47)}}).find("larger than") !=
        std::string::npos);
  CHECK(refusal(std::vector<ParsedFile>(kFilesPerSegmentMax + 1, ParsedFile{"f", attachment_table(1)}))
            .find("files are more") != std::string::npos);
}
