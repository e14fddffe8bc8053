// Fuzzes the packed data header, as it comes and with its checksum mended so that the fields behind it are reached.
#include <algorithm>
#include <cstring>

#include "base/crc32c.h"
#include "check.h"
#include "wire/data_header.h"

using namespace vrampool;

namespace {

void decode(const wire::DataHeaderBytes& bytes) {
  const auto header = wire::decode_data_header(bytes);
  if (!header.ok()) return fuzz::check_message(header.error());
  fuzz::must(header->payload_bytes <= wire::kDataPayloadBytesMax &&
             wire::pages_of(header->length) <= kPagesPerMessageMax);
  fuzz::must(header->offset <= kPoolSlotBytes && header->length <= kPoolSlotBytes - header->offset);
  fuzz::must(wire::encode(*header) == bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  wire::DataHeaderBytes bytes{};
  std::memcpy(bytes.data(), data, std::min(size, bytes.size()));
  decode(bytes);
  const auto crc = crc32c(std::span(bytes).first(bytes.size() - 4));
  std::memcpy(bytes.data() + bytes.size() - 4, &crc, 4);
  decode(bytes);
  return 0;
}
