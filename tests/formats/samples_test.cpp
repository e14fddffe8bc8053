// The sample writers themselves: what they write is readable and holds the content they promise.
#include "check.h"
#include "formats/safetensors.h"

using namespace vrampool;
using namespace vrampool::formats;

TEST_CASE("sample files hold the promised content at the offsets that the readers find") {
  const auto st = samples::write_safetensors({{"a", "F32", {2, 3}}, {"b", "BF16", {5}}});
  const auto gg = samples::write_gguf({{"a", "F32", {2, 3}}, {"b", "Q8_0", {2, 64}}});
  for (const auto* file : {&st, &gg}) {
    const auto table = parse_whole(file == &st ? parse_safetensors : parse_gguf, *file, "file");
    REQUIRE(table.ok());
    REQUIRE(table->tensors.size() == 2);
    for (const auto& t : table->tensors)
      CHECK(samples::has_content(std::span(*file).subspan(t.file_offset, t.bytes), t.name));
  }
}

TEST_CASE("the format is told by the first bytes, then by the name") {
  const auto gg = samples::write_gguf({{"a", "F32", {1}}});
  CHECK((detect_format(gg, "model.bin") == parse_gguf));
  const auto st = samples::write_safetensors({{"a", "F32", {1}}});
  CHECK((detect_format(st, "model.safetensors") == parse_safetensors));
  CHECK((detect_format(st, "weights.bin") == nullptr));
  CHECK((detect_format(st, "model.gguf") == parse_gguf));  // which then says that the magic is wrong
}

TEST_CASE("a raw file is one tensor of bytes") {
  const auto table = raw_table("blob", 12345);
  REQUIRE(table.tensors.size() == 1);
  CHECK(table.tensors[0].name == "blob");
  CHECK(table.tensors[0].dtype == wire::Dtype::u8);
  CHECK(table.tensors[0].bytes == 12345);
}
