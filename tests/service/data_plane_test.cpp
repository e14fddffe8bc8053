// Data planes against each other: bytes that go through freeze, seal, map and fault are the bytes that were written.
#include "data_rig.h"

using namespace vrampool;
using namespace vrampool::service;
using namespace vrampool::service::test;

TEST_CASE("a segment spread over two nodes is read back byte by byte, by bulk and by channel") {
  Rig rig(2);
  const Record r = rig.sealed_segment({{0, 3 * kPage}, {1, 70 * kPage}, {0, 2 * kPage}});
  for (int node = 0; node < 2; ++node) {
    std::vector<std::byte> all(r->bytes);
    auto bulk = rig[node].bulk_channel();
    const Status s = bulk->read(r, 0, all);
    REQUIRE_MESSAGE(s.ok(), s.error().message);
    CHECK(all == Rig::pattern(0, r->bytes));
    for (const bool by_mover : {false, true}) {
      Channel channel(rig[node], by_mover);
      for (const auto& [offset, length] : {std::pair<std::uint64_t, std::uint32_t>{0, 1},
                                           {kPage - 3, 6},
                                           {2 * kPage + 11, 3 * kPage},
                                           {5 * kPage + 1, 64 * kPage},
                                           {r->bytes - 1, 1}}) {
        const auto a = channel.read(r->id, offset, length);
        CHECK(a.header.kind == wire::DataKind::data);
        CHECK(a.payload == Rig::pattern(offset, length));
      }
      CHECK(channel.read(r->id, r->bytes, 1).header.status == VP_INVALID);
      CHECK(channel.read(SegmentId{MemberNo{1}, Life{1}, 999}, 0, 1).header.status == VP_STALE);
    }
  }
}

TEST_CASE("lazy views on every fault source show the bytes; two views fetch once") {
  for (const auto source : sources()) {
    CAPTURE(platform::to_text(source));
    Rig rig(2);
    const Record r = rig.sealed_segment({{1, 100 * kPage}});
    Mapping first(rig[0], r, source);
    REQUIRE_MESSAGE(first.status().ok(), first.status().error().message);
    REQUIRE(first.parts().size() == 1);
    CHECK(first.parts()[0].kind == wire::PartKind::cache);
    CHECK(first.wrong_pages() == 0);
    const auto fetched = rig[0].figures().pages_fetched;
    CHECK(fetched >= 100);
    Mapping second(rig[0], r, source);
    REQUIRE(second.status().ok());
    CHECK(second.wrong_pages() == 0);
    CHECK(rig[0].figures().pages_fetched == fetched);
    CHECK(rig[0].figures().faults > 0);
  }
}

TEST_CASE("what lies on this node is mapped without a copy") {
  Rig rig(2);
  const Record r = rig.sealed_segment({{0, 8 * kPage}, {1, 8 * kPage}});
  Mapping lazy(rig[0], r, sources().back());
  REQUIRE(lazy.status().ok());
  REQUIRE(lazy.parts().size() == 2);
  CHECK(lazy.parts()[0].kind == wire::PartKind::direct);
  CHECK(lazy.parts()[1].kind == wire::PartKind::cache);
  CHECK(lazy.wrong_pages() == 0);
  Mapping local(rig[0], r, sources().back(), kPage, 7 * kPage, true);
  REQUIRE(local.status().ok());
  CHECK(local.parts()[0].kind == wire::PartKind::direct);
  CHECK(local.wrong_pages() == 0);
}

TEST_CASE("a resident map is one part and complete before the call returns") {
  Rig rig(2);
  const Record r = rig.sealed_segment({{0, 30 * kPage}, {1, 200 * kPage}, {0, 10 * kPage}});
  Mapping map(rig[0], r, sources().front(), 0, 0, true);
  REQUIRE_MESSAGE(map.status().ok(), map.status().error().message);
  REQUIRE(map.parts().size() == 1);
  CHECK(map.parts()[0].kind == wire::PartKind::resident);
  const auto fetched = rig[0].figures().pages_fetched;
  CHECK(map.wrong_pages() == 0);
  CHECK(rig[0].figures().pages_fetched == fetched);
}

TEST_CASE("tls for data carries the same bytes") {
  Rig rig(2, [](DataPlaneOptions& o) {
    o.data_tls = true;
    o.pool_key.assign(32, std::byte{0x5a});
    o.pool_key_id = "key-1";
  });
  const Record r = rig.sealed_segment({{1, 80 * kPage}});
  Mapping map(rig[0], r, sources().back());
  REQUIRE(map.status().ok());
  CHECK(map.wrong_pages() == 0);
}

TEST_CASE("a write into a sealed segment, with a foreign token or beyond the end is refused") {
  Rig rig(2);
  const Record r = rig.record(8 * kPage, {{0, 4 * kPage}, {1, 4 * kPage}});
  REQUIRE(rig.create(r).ok());
  Channel channel(rig[0], false);
  const auto bytes = Rig::pattern(kPage / 2, 100);
  CHECK(channel.write(r->id, r->create_token, kPage / 2, bytes).header.kind == wire::DataKind::write_ok);
  CHECK(channel.write(r->id, r->create_token + 1, 0, bytes).header.status == VP_DENIED);
  CHECK(channel.write(r->id, r->create_token, 8 * kPage, bytes).header.status == VP_INVALID);
  CHECK(channel.write(r->id, r->create_token, 5 * kPage + 1, bytes).header.status == VP_INVALID);
  CHECK(channel.write(r->id, r->create_token, 5 * kPage, bytes).header.kind == wire::DataKind::write_ok);
  // Across the border between the nodes.
  CHECK(channel.write(r->id, r->create_token, 3 * kPage, Rig::pattern(3 * kPage, 2 * kPage)).header.kind ==
        wire::DataKind::write_ok);
  const Record sealed = rig.seal(r);
  CHECK(channel.write(r->id, r->create_token, 0, bytes).header.status == VP_STALE);
  CHECK(channel.write(r->id, r->create_token, 5 * kPage, bytes).header.status == VP_STALE);
  CHECK(channel.read(r->id, kPage / 2, 100).payload == bytes);
  CHECK(channel.read(r->id, 3 * kPage, 2 * kPage).payload == Rig::pattern(3 * kPage, 2 * kPage));
  const auto tail = channel.read(r->id, 5 * kPage, 200).payload;
  CHECK(std::equal(bytes.begin(), bytes.end(), tail.begin()));
  CHECK(tail[150] == std::byte{0});
}

TEST_CASE("pages nobody wrote read as zeros from afar") {
  Rig rig(2);
  const Record r = rig.record(64 * kPage, {{1, 64 * kPage}});
  REQUIRE(rig.create(r).ok());
  const Record sealed = rig.seal(r);
  Mapping map(rig[0], sealed, sources().back());
  REQUIRE(map.status().ok());
  CHECK(map.bytes()[5 * kPage] == std::byte{0});
  CHECK(map.bytes()[63 * kPage + 7] == std::byte{0});
}

TEST_CASE("a home that goes leaves poison and a loss; when it is back the bytes are back") {
  for (const auto source : sources()) {
    CAPTURE(platform::to_text(source));
    Rig rig(2);
    const Record r = rig.sealed_segment({{1, 40 * kPage}});
    Mapping map(rig[0], r, source);
    REQUIRE(map.status().ok());
    CHECK(map.bytes()[0] == Rig::pattern_at(0));
    rig.stop(1);
    rig.introduce();
    CHECK(map.bytes()[39 * kPage] == std::byte{0xff});
    CHECK(map.bytes()[0] == Rig::pattern_at(0));  // what is here stays
    CHECK(eventually([&] { return !rig.losses().empty(); }));
    CHECK(rig.losses()[0].view == map.number());
    CHECK_FALSE(rig.losses()[0].healed);
    rig.start(1);
    rig.open(r);
    rig.introduce();
    INFO("views ", rig[0].figures().views, ", fetched ", rig[0].figures().pages_fetched, ", evicted ",
         rig[0].figures().evicted_pages, ", retries ", rig[0].figures().retries, ", poisoned ",
         rig[0].figures().poisoned_pages, ", faults ", rig[0].figures().faults);
    CHECK(eventually([&] { return map.bytes()[39 * kPage] == Rig::pattern_at(39 * kPage); }));
    CHECK(eventually([&] { return rig.losses().back().healed; }));
    CHECK(map.wrong_pages() == 0);
  }
}

TEST_CASE("a home that stops answering is given up at the fault deadline") {
  Rig rig(2, [](DataPlaneOptions& o) { o.fault_deadline = Duration::millis(700); });
  const Record r = rig.sealed_segment({{1, 8 * kPage}});
  Mapping map(rig[0], r, sources().back());
  REQUIRE(map.status().ok());
  rig.stop(1);  // nobody tells the view
  CHECK(map.bytes()[3 * kPage] == std::byte{0xff});
  CHECK(eventually([&] { return !rig.losses().empty(); }));
}

TEST_CASE("a view outlives its daemon: the next one serves it, and what it had is not fetched again") {
  for (const auto source : sources()) {
    CAPTURE(platform::to_text(source));
    Rig rig(2);
    const Record r = rig.sealed_segment({{1, 64 * kPage}});
    Mapping map(rig[0], r, source);
    REQUIRE(map.status().ok());
    for (int p = 0; p < 10; ++p)
      CHECK(map.bytes()[static_cast<std::size_t>(p) * kPage] == Rig::pattern_at(static_cast<std::uint64_t>(p) * kPage));
    rig.stop(0);
    std::thread waiting([&] { CHECK(map.bytes()[63 * kPage] == Rig::pattern_at(63 * kPage)); });
    rig.start(0);
    rig.open(r);
    rig.introduce();
    const Status s = map.attach(rig[0], true);
    CHECK_MESSAGE(s.ok(), s.error().message);
    waiting.join();
    CHECK(map.wrong_pages() == 0);
    CHECK(rig[0].figures().pages_fetched <= 55);
  }
}

TEST_CASE("pieces of a restarted daemon are adopted, served and reported") {
  Rig rig(2);
  const Record r = rig.sealed_segment({{0, 4 * kPage}, {1, 4 * kPage}});
  rig.stop(1);
  rig.start(1);
  rig.open(r);
  rig.introduce();
  REQUIRE(rig[1].adopted().size() == 1);
  CHECK(rig[1].adopted()[0].state == PieceState::sealed);
  std::vector<std::byte> all(r->bytes);
  const Status s = rig[0].bulk_channel()->read(r, 0, all);
  REQUIRE_MESSAGE(s.ok(), s.error().message);
  CHECK(all == Rig::pattern(0, r->bytes));
}

TEST_CASE("under a tiny cache budget pages are evicted and come back right") {
  for (const auto source : sources()) {
    CAPTURE(platform::to_text(source));
    Rig rig(2, [](DataPlaneOptions& o) { o.cache_bytes = 64 * kPage; });
    const Record r = rig.sealed_segment({{1, 400 * kPage}});
    Mapping map(rig[0], r, source);
    REQUIRE(map.status().ok());
    CHECK(map.wrong_pages() == 0);
    CHECK(eventually([&] { return rig[0].figures().evicted_pages > 0; }));
    CHECK(eventually([&] { return rig[0].figures().cache_bytes <= 64 * kPage; }));
    CHECK(map.wrong_pages() == 0);
  }
}

TEST_CASE("a removed piece is refused by its home, never answered with other bytes") {
  Rig rig(2);
  const Record r = rig.sealed_segment({{1, 8 * kPage}});
  Mapping map(rig[0], r, sources().back());
  REQUIRE(map.status().ok());
  CHECK(map.bytes()[0] == Rig::pattern_at(0));
  REQUIRE(await<void>([&](auto done) { rig[1].free_piece({r->id, 0}, done); }).ok());
  CHECK(rig[1].figures().used_bytes == 0);
  std::vector<std::byte> all(r->bytes);
  CHECK(rig[0].bulk_channel()->read(r, 0, all).error().code == VP_NOT_FOUND);
  CHECK(map.bytes()[0] == Rig::pattern_at(0));
}

TEST_CASE("a client that maps a piece keeps its bytes when the piece is freed") {
  Rig rig(1);
  const Record r = rig.sealed_segment({{0, 8 * kPage}});
  Mapping map(rig[0], r, sources().back());
  REQUIRE(map.status().ok());
  REQUIRE(await<void>([&](auto done) { rig[0].free_piece({r->id, 0}, done); }).ok());
  rig[0].close_record(r->id);
  CHECK(map.wrong_pages() == 0);
  Mapping again(rig[0], r, sources().back());
  CHECK(again.status().error().code == VP_STALE);
}

TEST_CASE("a full node answers no space and goes on") {
  Rig rig(2, [](DataPlaneOptions& o) { o.capacity_bytes = 16 * kPage; });
  const Record big = rig.record(32 * kPage, {{1, 32 * kPage}});
  const Status s = rig.create(big);
  REQUIRE_FALSE(s.ok());
  CHECK(s.error().code == VP_NO_SPACE);
  const Record small = rig.sealed_segment({{1, 16 * kPage}});
  CHECK(small != nullptr);
}

TEST_CASE("prefetch, pins and the status of a range") {
  Rig rig(2);
  const Record r = rig.sealed_segment({{0, 10 * kPage}, {1, 90 * kPage}});
  wire::PrefetchT prefetch;
  prefetch.id = r->id;
  prefetch.wait = true;
  CHECK(await<void>([&](auto done) { rig[0].prefetch(prefetch, done); }).ok());
  wire::PinRangeT pin;
  pin.id = r->id;
  pin.offset = 20 * kPage;
  pin.bytes = 5 * kPage;
  CHECK(await<void>([&](auto done) { rig[0].pin(Mapping::kClient, pin, done); }).ok());
  wire::RangeStatusT ask;
  ask.id = r->id;
  auto status = await<wire::RangeStatusReplyT>([&](auto done) { rig[0].range_status(ask, done); });
  REQUIRE(status.ok());
  CHECK(status->pages == 100);
  CHECK(status->local == 10);
  CHECK(status->remote == 90);
  CHECK(status->cached >= 90);
  CHECK(status->pinned == 5);
  CHECK(status->lost == 0);
  rig[0].client_gone(Mapping::kClient);
  status = await<wire::RangeStatusReplyT>([&](auto done) { rig[0].range_status(ask, done); });
  REQUIRE(status.ok());
  CHECK(status->pinned == 0);
}

TEST_CASE("page reads are measured from engine to engine") {
  Rig rig(2);
  DataPlane::BenchAsk ask;
  ask.peer = rig.member(1);
  ask.count = 200;
  const auto a = await<DataPlane::BenchAnswer>([&](auto done) { rig[0].bench_page_read(ask, done); });
  REQUIRE_MESSAGE(a.ok(), a.error().message);
  CHECK(a->ns.size() == 200);
  CHECK(a->cpu_ns > 0);
}
