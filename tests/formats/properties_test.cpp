// Properties of the readers and the plan over random files, whole and damaged.
#include <rapidcheck.h>

#include "check.h"
#include "formats/model.h"
#include "formats/safetensors.h"
#include "image.h"

using namespace vrampool;
using namespace vrampool::formats;
using samples::Bytes;

namespace {

rc::Gen<std::vector<std::uint64_t>> shapes() {
  return rc::gen::resize(4, rc::gen::container<std::vector<std::uint64_t>>(rc::gen::inRange<std::uint64_t>(0, 20)));
}
std::vector<samples::Tensor> random_tensors(const std::string& prefix, const std::vector<std::string>& types) {
  std::vector<samples::Tensor> tensors;
  const int count = *rc::gen::inRange(0, 6);
  for (int i = 0; i < count; ++i) {
    samples::Tensor t{prefix + std::to_string(i), *rc::gen::elementOf(types), *shapes()};
    if (t.type == "Q8_0") t.shape.push_back(32 * *rc::gen::inRange<std::uint64_t>(1, 40));
    if (t.shape.size() > 4) t.shape.resize(4), t.shape.back() = 32;
    tensors.push_back(std::move(t));
  }
  return tensors;
}
struct Sample {
  std::vector<samples::Tensor> tensors;
  Bytes bytes;
  Parser parser;
};
Sample random_file(bool gguf, const std::string& prefix) {
  Sample s;
  s.parser = gguf ? parse_gguf : parse_safetensors;
  s.tensors = random_tensors(prefix, gguf ? std::vector<std::string>{"F32", "F16", "I8", "Q8_0"}
                                          : std::vector<std::string>{"F64", "F32", "BF16", "BOOL", "F8_E4M3"});
  s.bytes = gguf ? samples::write_gguf(s.tensors, {.alignment = *rc::gen::element(8u, 32u, 4096u),
                                                   .vocabulary = *rc::gen::arbitrary<bool>()})
                 : samples::write_safetensors(s.tensors);
  return s;
}
bool inside(const TensorTable& table) {
  std::uint64_t end = table.data_offset;
  for (const auto& t : table.tensors) {
    if (t.file_offset < end || t.bytes > table.file_bytes - t.file_offset) return false;
    end = t.file_offset + t.bytes;
  }
  return true;
}

}  // namespace

TEST_CASE("what was written is read, whole and step by step") {
  CHECK(rc::check([] {
    const auto file = random_file(*rc::gen::arbitrary<bool>(), "t");
    const auto table = parse_stepwise(file.parser, file.bytes);
    RC_ASSERT(table.ok());
    RC_ASSERT(parse_whole(file.parser, file.bytes, "file").ok());
    RC_ASSERT(table->tensors.size() == file.tensors.size());
    for (const auto& t : table->tensors) {
      const auto at =
          std::find_if(file.tensors.begin(), file.tensors.end(), [&](const auto& x) { return x.name == t.name; });
      RC_ASSERT(at != file.tensors.end());
      RC_ASSERT(t.shape == at->shape);
      RC_ASSERT(t.type_name == at->type);
      RC_ASSERT(samples::has_content(std::span(file.bytes).subspan(t.file_offset, t.bytes), t.name));
    }
  }));
}

TEST_CASE("a damaged file is refused, or its tensors still lie inside it") {
  CHECK(rc::check([] {
    auto file = random_file(*rc::gen::arbitrary<bool>(), "t");
    const int damages = *rc::gen::inRange(1, 4);
    for (int i = 0; i < damages; ++i)
      file.bytes[*rc::gen::inRange<std::size_t>(0, file.bytes.size())] =
          static_cast<std::byte>(*rc::gen::arbitrary<std::uint8_t>());
    if (*rc::gen::arbitrary<bool>()) file.bytes.resize(*rc::gen::inRange<std::size_t>(0, file.bytes.size() + 1));
    const auto table = parse_stepwise(file.parser, file.bytes);
    if (table.ok())
      RC_ASSERT(inside(*table));
    else
      RC_ASSERT(!table.error().message.empty());
  }));
}

TEST_CASE("a plan covers every byte of every file and keeps tensors whole") {
  CHECK(rc::check([] {
    const bool gguf = *rc::gen::arbitrary<bool>();
    const auto layout = *rc::gen::element(wire::LayoutMode::aligned, wire::LayoutMode::file);
    std::vector<ParsedFile> parsed;
    std::vector<Bytes> files;
    const int count = *rc::gen::inRange(1, 4);
    for (int i = 0; i < count; ++i) {
      auto file = random_file(gguf, "f" + std::to_string(i) + ".");
      parsed.push_back({"file" + std::to_string(i), *parse_whole(file.parser, file.bytes, "file")});
      files.push_back(std::move(file.bytes));
    }
    const auto plan = plan_segment(parsed, layout);
    RC_ASSERT(plan.ok());
    RC_ASSERT(plan->bytes % kPageBytes == 0u);
    RC_ASSERT(exports_exactly(*plan, files));
    const auto image = segment_image(*plan, files);
    for (const auto& t : plan->tensors) {
      RC_ASSERT(samples::has_content(std::span(image).subspan(t.offset, t.bytes), t.name));
      if (layout == wire::LayoutMode::aligned) RC_ASSERT(t.offset % kPageBytes == 0u);
    }
    std::uint64_t before = 0;
    for (const auto cut : plan->cut_points) {
      RC_ASSERT(cut % kPageBytes == 0u);
      RC_ASSERT(cut > before);
      RC_ASSERT(cut < plan->bytes);
      before = cut;
      const std::uint64_t slack = layout == wire::LayoutMode::aligned ? 0 : kPageBytes;
      for (const auto& t : plan->tensors) RC_ASSERT((t.offset >= cut || t.offset + t.bytes <= cut + slack));
    }
  }));
}
