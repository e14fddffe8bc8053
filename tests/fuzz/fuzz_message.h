// The body of a target for a FlatBuffers message: what is accepted can be encoded and decoded again.
#pragma once

#include "check.h"
#include "wire/codec.h"

namespace vrampool::fuzz {

// `known` false: the message holds a union member of a later version, which is read as nothing and cannot be written.
template <class T, class Known>
void run_message(const std::uint8_t* data, std::size_t size, Known known) {
  const auto message = wire::decode<T>(bytes_of(data, size), "message");
  if (!message.ok()) return check_message(message.error());
  if (!known(*message)) return;
  const auto again = wire::encode<T>(*message);
  must(wire::decode<T>(again, "again").ok());
}

}  // namespace vrampool::fuzz
