// FlatBuffers frames: records survive, truncated and damaged bytes are refused or at least stay inside.
#include "wire/codec.h"

#include <doctest/doctest.h>

#include "wire/control_generated.h"
#include "wire/local_generated.h"

using namespace vrampool;

namespace {
wire::RecordT sample() {
  wire::RecordT r;
  r.id = {MemberNo{1}, Life{2}, 3};
  r.version = {{1, MemberNo{1}}, 5};
  r.state = wire::SegmentState::sealed;
  r.name = "models/a";
  auto t = std::make_unique<wire::TensorT>();
  t->name = "w";
  t->shape = {2, 3};
  t->bytes = 24;
  r.tensors.push_back(std::move(t));
  return r;
}
}  // namespace

TEST_CASE("a record survives the wire") {
  const auto bytes = wire::encode<wire::Record>(sample());
  const auto back = wire::decode<wire::Record>(bytes, "test");
  REQUIRE(back.ok());
  CHECK(back->id == SegmentId{MemberNo{1}, Life{2}, 3});
  CHECK(back->version == RecordVersion{{1, MemberNo{1}}, 5});
  REQUIRE(back->tensors.size() == 1);
  CHECK(back->tensors[0]->shape == std::vector<std::uint64_t>{2, 3});
}

TEST_CASE("truncated records are refused") {
  const auto bytes = wire::encode<wire::Record>(sample());
  for (std::size_t n = 0; n + 1 < bytes.size(); n += 3) {
    const auto cut = wire::decode<wire::Record>(std::span(bytes).first(n), "test");
    if (cut.ok()) CHECK(n + 8 > bytes.size());  // only padding was cut
  }
}

TEST_CASE("envelopes carry a body") {
  wire::EnvelopeT e;
  e.from = {MemberNo{1}, Life{2}};
  wire::ProposeT p;
  p.record = std::make_unique<wire::RecordT>(sample());
  e.body.Set(std::move(p));
  const auto back = wire::decode<wire::Envelope>(wire::encode<wire::Envelope>(e), "test");
  REQUIRE(back.ok());
  REQUIRE(back->body.AsPropose() != nullptr);
  CHECK(back->body.AsPropose()->record->name == "models/a");
}

TEST_CASE("frames larger than allowed are refused") {
  const std::array<std::byte, 4> prefix{std::byte{0xff}, std::byte{0xff}, std::byte{0xff}, std::byte{0xff}};
  CHECK_FALSE(wire::frame_length(prefix).ok());
}

namespace {
// A record whose `tensors` tensors all have the same name string of `name_bytes` bytes.
std::vector<std::byte> shared_name(std::size_t tensors, std::size_t name_bytes) {
  flatbuffers::FlatBufferBuilder b;
  const auto name = b.CreateString(std::string(name_bytes, 'x'));
  std::vector<flatbuffers::Offset<wire::Tensor>> list;
  for (std::size_t i = 0; i < tensors; ++i) list.push_back(wire::CreateTensor(b, name));
  const auto tensors_at = b.CreateVector(list);
  wire::RecordBuilder record(b);
  record.add_tensors(tensors_at);
  b.Finish(record.Finish());
  const auto* p = reinterpret_cast<const std::byte*>(b.GetBufferPointer());
  return {p, p + b.GetSize()};
}
}  // namespace

TEST_CASE("a message that would unpack into far more than its size is refused") {
  CHECK(wire::decode<wire::Record>(shared_name(1, 100'000), "test").ok());
  CHECK_FALSE(wire::decode<wire::Record>(shared_name(2000, 100'000), "test").ok());
}

TEST_CASE("one table referenced many times is refused") {
  flatbuffers::FlatBufferBuilder b;
  const auto entry = wire::CreateTensor(b, b.CreateString("w"));
  const auto tensors_at = b.CreateVector(std::vector<flatbuffers::Offset<wire::Tensor>>(1000, entry));
  wire::RecordBuilder record(b);
  record.add_tensors(tensors_at);
  b.Finish(record.Finish());
  const auto* p = reinterpret_cast<const std::byte*>(b.GetBufferPointer());
  CHECK_FALSE(wire::decode<wire::Record>({p, b.GetSize()}, "test").ok());
}

TEST_CASE("a union that names a type without a value is refused") {
  flatbuffers::FlatBufferBuilder b;
  wire::LocalMessageBuilder message(b);
  message.add_body_type(wire::LocalBody::OpenData);
  b.Finish(message.Finish());
  const auto* p = reinterpret_cast<const std::byte*>(b.GetBufferPointer());
  CHECK_FALSE(wire::decode<wire::LocalMessage>({p, b.GetSize()}, "test").ok());
}

TEST_CASE("an envelope without a body is an envelope") {
  wire::EnvelopeT e;
  e.reply = true;
  CHECK(wire::decode<wire::Envelope>(wire::encode<wire::Envelope>(e), "test").ok());
}
