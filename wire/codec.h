// Frames of FlatBuffers: verified before a byte is believed, unpacked into the object API's structs.
//
// A frame on a stream is {u32 length, little endian}{FlatBuffer}. Errors: decode() refuses what the verifier
// refuses; depth, tables and size are bounded.
#pragma once

#include <flatbuffers/flatbuffers.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/limits.h"
#include "base/result.h"
#include "wire/tree_check.h"

namespace vrampool::wire {

// Encodes object `T::NativeTableType` as a FlatBuffer of root type T.
template <class T>
std::vector<std::byte> encode(const typename T::NativeTableType& object) {
  flatbuffers::FlatBufferBuilder builder(1024);
  builder.Finish(T::Pack(builder, &object));
  const auto* p = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  return {p, p + builder.GetSize()};
}

// Decodes and verifies; `what` names the source in the message.
template <class T>
Result<typename T::NativeTableType> decode(std::span<const std::byte> bytes, const char* what) {
  if (bytes.size() < 8 || bytes.size() > kControlMessageBytesMax)
    return error(VP_CORRUPT, "{}: message of {} bytes", what, bytes.size());
  // The verifier wants aligned bytes; a frame may start anywhere.
  std::unique_ptr<std::uint64_t[]> aligned;
  const auto* p = reinterpret_cast<const std::uint8_t*>(bytes.data());
  if (reinterpret_cast<std::uintptr_t>(p) % 8 != 0) {
    aligned = std::make_unique<std::uint64_t[]>(bytes.size() / 8 + 1);
    std::memcpy(aligned.get(), p, bytes.size());
    p = reinterpret_cast<const std::uint8_t*>(aligned.get());
  }
  // A table takes 8 bytes at least; more of them are the same ones again.
  const auto tables_max = static_cast<flatbuffers::uoffset_t>(std::min<std::size_t>(bytes.size() / 8 + 1, 4'000'000));
  flatbuffers::Verifier verifier(p, bytes.size(), 16, tables_max);
  if (!verifier.VerifyBuffer<T>(nullptr) || !is_plain_tree(p, bytes.size(), T::MiniReflectTypeTable()))
    return error(VP_CORRUPT, "{}: damaged message of {} bytes", what, bytes.size());
  typename T::NativeTableType object;
  flatbuffers::GetRoot<T>(p)->UnPackTo(&object);
  return object;
}

// Prepends the u32 length.
std::vector<std::byte> frame(std::span<const std::byte> body);
// Length of the frame that starts here. Errors: larger than `max`.
Result<std::uint32_t> frame_length(std::span<const std::byte, 4> prefix, std::size_t max = kControlMessageBytesMax);

}  // namespace vrampool::wire
