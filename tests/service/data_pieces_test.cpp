// Pieces and their metadata: what survives a restart, what a write may still do, what a huge sparse piece costs.
#include <sys/stat.h>

#include <filesystem>
#include <thread>

#include "base/crc32c.h"
#include "doctest/doctest.h"
#include "service/data/piece.h"
#include "service/data/piece_digest.h"
#include "service/data/piece_store.h"

using namespace vrampool;
using namespace vrampool::service;
using namespace vrampool::service::data;

namespace {

constexpr std::uint64_t kToken = 42;
constexpr platform::MachineId kBoot{7, 9};
const Sender kWriter{MemberNo{1}, Life{1}};

struct Place {
  std::string directory;
  DataPlaneOptions options;
  Place() {
    static int n = 0;
    directory = fmt::format("/dev/shm/vp-test-{}-pieces-{}", ::getpid(), n++);
    options.memory_dir = directory;
    options.capacity_bytes = 1ull << 42;
    options.incarnation = Incarnation{3};
  }
  ~Place() {
    std::error_code ignored;
    std::filesystem::remove_all(directory, ignored);
  }
  PieceStore open(platform::MachineId boot = kBoot) {
    auto store = PieceStore::open(options, boot);
    REQUIRE_MESSAGE(store.ok(), store.error().message);
    store->adopt_all();
    return std::move(*store);
  }
  std::uint64_t allocated() const {
    std::uint64_t sum = 0;
    for (const auto& e : std::filesystem::directory_iterator(directory)) {
      struct stat s {};
      ::stat(e.path().c_str(), &s);
      sum += static_cast<std::uint64_t>(s.st_blocks) * 512;
    }
    return sum;
  }
};

const SegmentId kSegment{MemberNo{1}, Life{1}, 5};

wire::PieceT piece_of(std::uint64_t bytes) {
  wire::PieceT p;
  p.ordinal = 2;
  p.node = 1;
  p.offset = 4 * kPageBytes;
  p.bytes = bytes;
  return p;
}

std::vector<std::byte> page(std::uint8_t value) { return std::vector<std::byte>(kPageBytes, std::byte{value}); }

Status put(Piece& p, std::uint64_t no, std::uint64_t at, std::uint8_t value, std::uint64_t token = kToken) {
  const auto bytes = page(value);
  const std::uint32_t crc = crc32c(bytes);
  return p.write_pages(kWriter, RequestNo{no}, token, at * kPageBytes, bytes, {&crc, 1});
}

}  // namespace

TEST_CASE("a write counts once per request, only with the token and only before the freeze") {
  Place place;
  auto store = place.open();
  auto made = store.create(kSegment, piece_of(8 * kPageBytes), kToken);
  REQUIRE(made.ok());
  Piece& p = **made;
  CHECK(put(p, 1, 0, 0x11).ok());
  CHECK(put(p, 2, 1, 0x22, kToken + 1).error().code == VP_DENIED);
  CHECK(put(p, 3, 0, 0x33).ok());
  CHECK(put(p, 1, 0, 0x11).ok());  // late twin of the first: acknowledged, not applied
  CHECK(p.freeze(kToken + 1).error().code == VP_DENIED);
  REQUIRE(p.freeze(kToken).ok());
  CHECK(p.view(0, 1)[0] == std::byte{0x33});
  CHECK(p.crc(0) == crc32c(page(0x33)));
  CHECK(put(p, 4, 2, 0x44).error().code == VP_STALE);
  CHECK(put(p, 3, 0, 0x55).ok());  // a repeated old one is acknowledged even now
  CHECK(p.view(0, 1)[0] == std::byte{0x33});
  CHECK(p.seal().ok());
  CHECK(p.state() == PieceState::sealed);
}

TEST_CASE("pages that were never written read as zeros and have the checksum of zeros") {
  Place place;
  auto store = place.open();
  auto made = store.create(kSegment, piece_of(4 * kPageBytes), kToken);
  REQUIRE(made.ok());
  REQUIRE(put(**made, 1, 2, 0x77).ok());
  REQUIRE((*made)->freeze(kToken).ok());
  CHECK((*made)->crc(0) == zero_page_crc());
  CHECK_FALSE((*made)->whole(0, 4));
  std::vector<std::byte> all(4 * kPageBytes, std::byte{1});
  (*made)->copy_out(0, all);
  CHECK(all[0] == std::byte{0});
  CHECK(all[2 * kPageBytes] == std::byte{0x77});
  CHECK(all[3 * kPageBytes + 5] == std::byte{0});
}

TEST_CASE("parts of pages can be written by a local writer") {
  Place place;
  auto store = place.open();
  auto made = store.create(kSegment, piece_of(4 * kPageBytes), kToken);
  REQUIRE(made.ok());
  const std::vector<std::byte> some(100, std::byte{9});
  REQUIRE((*made)->write_part(kToken, kPageBytes - 50, some).ok());
  REQUIRE((*made)->freeze(kToken).ok());
  const auto bytes = (*made)->view(0, 2 * kPageBytes);
  CHECK(bytes[kPageBytes - 51] == std::byte{0});
  CHECK(bytes[kPageBytes - 50] == std::byte{9});
  CHECK(bytes[kPageBytes + 49] == std::byte{9});
  CHECK(bytes[kPageBytes + 50] == std::byte{0});
  CHECK((*made)->crc(1) == crc32c(bytes.subspan(kPageBytes, kPageBytes)));
}

TEST_CASE("a restarted daemon adopts its pieces; other boots and incarnations leave nothing") {
  Place place;
  {
    auto store = place.open();
    auto made = store.create(kSegment, piece_of(4 * kPageBytes), kToken);
    REQUIRE(made.ok());
    REQUIRE(put(**made, 1, 1, 0x42).ok());
    REQUIRE((*made)->freeze(kToken).ok());
    REQUIRE((*made)->seal().ok());
  }
  {
    auto store = place.open();
    const auto p = store.find({kSegment, 2});
    REQUIRE(p != nullptr);
    const PieceReport r = p->report();
    CHECK(r.state == PieceState::sealed);
    CHECK(r.bytes == 4 * kPageBytes);
    CHECK(r.segment_offset == 4 * kPageBytes);
    CHECK(r.token == kToken);
    CHECK(r.valid_pages == 1);
    CHECK(p->view(kPageBytes, 1)[0] == std::byte{0x42});
    CHECK(p->crc(1) == crc32c(page(0x42)));
    CHECK(store.books().booked == 4 * kPageBytes);
    CHECK(p->freeze(kToken).ok());
    CHECK(put(*p, 9, 0, 1).error().code == VP_STALE);
  }
  SUBCASE("another incarnation") {
    place.options.incarnation = Incarnation{4};
    CHECK(place.open().all().empty());
  }
  SUBCASE("another boot") { CHECK(place.open({1, 1}).all().empty()); }
  SUBCASE("damaged metadata") {
    for (const auto& e : std::filesystem::directory_iterator(place.directory))
      if (e.path().extension() == ".m") {
        FILE* f = std::fopen(e.path().c_str(), "r+");
        for (int slot = 0; slot < 2; ++slot) {
          std::fseek(f, slot * 4096 + 40, SEEK_SET);
          std::fputc(0xee, f);
        }
        std::fclose(f);
      }
    CHECK(place.open().all().empty());
  }
  CHECK(std::filesystem::is_empty(place.directory));
}

TEST_CASE("half written pages of a piece in creation are taken back at adoption") {
  Place place;
  {
    auto store = place.open();
    auto made = store.create(kSegment, piece_of(4 * kPageBytes), kToken);
    REQUIRE(made.ok());
    REQUIRE(put(**made, 1, 0, 0x10).ok());
    // What a killed daemon leaves: bytes without a valid bit.
    const auto path = place.directory + "/" + piece_data_name({kSegment, 2});
    FILE* f = std::fopen(path.c_str(), "r+");
    std::fseek(f, static_cast<long>(2 * kPageBytes + 100), SEEK_SET);
    std::fputc(0xaa, f);
    std::fclose(f);
  }
  auto store = place.open();
  const auto p = store.find({kSegment, 2});
  REQUIRE(p != nullptr);
  CHECK(p->report().state == PieceState::creating);
  REQUIRE(p->freeze(kToken).ok());
  std::vector<std::byte> all(4 * kPageBytes);
  p->copy_out(0, all);
  CHECK(all[100] == std::byte{0x10});
  CHECK(all[2 * kPageBytes + 100] == std::byte{0});
}

TEST_CASE("a sparse piece of 350 GiB costs almost nothing, and hashing it costs what it holds") {
  Place place;
  auto store = place.open();
  constexpr std::uint64_t kHuge = 350ull << 30;
  auto made = store.create(kSegment, piece_of(kHuge), kToken);
  REQUIRE(made.ok());
  REQUIRE(put(**made, 1, 0, 1).ok());
  REQUIRE(put(**made, 2, kHuge / kPageBytes - 1, 2).ok());
  REQUIRE((*made)->freeze(kToken).ok());
  const Sha256 first = (*made)->digest();
  CHECK(first != Sha256{});
  CHECK(place.allocated() < 4u << 20);
  CHECK((*made)->crc(kHuge / kPageBytes / 2) == zero_page_crc());
}

TEST_CASE("the digest depends on bytes, not on which pages are present") {
  Place place;
  auto store = place.open();
  Sha256 digests[2];
  for (int i = 0; i < 2; ++i) {
    const SegmentId id{MemberNo{1}, Life{1}, static_cast<std::uint64_t>(10 + i)};
    auto made = store.create(id, piece_of(4 * kPageBytes), kToken);
    REQUIRE(made.ok());
    REQUIRE(put(**made, 1, 1, 0x42).ok());
    if (i == 1) REQUIRE(put(**made, 2, 3, 0).ok());
    REQUIRE((*made)->freeze(kToken).ok());
    digests[i] = (*made)->digest();
  }
  CHECK(digests[0] == digests[1]);
}

TEST_CASE("creating the same piece again finds it; another writer's is refused; the books hold") {
  Place place;
  place.options.capacity_bytes = 10 * kPageBytes;
  auto store = place.open();
  auto a = store.create(kSegment, piece_of(8 * kPageBytes), kToken);
  REQUIRE(a.ok());
  auto again = store.create(kSegment, piece_of(8 * kPageBytes), kToken);
  REQUIRE(again.ok());
  CHECK(*again == *a);
  CHECK(store.create(kSegment, piece_of(8 * kPageBytes), kToken + 1).error().code == VP_EXISTS);
  const SegmentId other{MemberNo{1}, Life{1}, 6};
  CHECK(store.create(other, piece_of(8 * kPageBytes), kToken).error().code == VP_NO_SPACE);
  REQUIRE(put(**a, 1, 0, 0x5a).ok());
  REQUIRE((*a)->freeze(kToken).ok());
  const PiecePtr held = *a;
  store.remove({kSegment, 2});
  CHECK(held->view(0, 1)[0] == std::byte{0x5a});  // whoever still holds it reads the old bytes
  CHECK(store.create(other, piece_of(8 * kPageBytes), kToken).ok());
}
