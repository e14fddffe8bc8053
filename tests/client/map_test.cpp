// Mapped memory: resident and lazy, by range and by tensor, and what happens when pages are lost.
#include <atomic>
#include <cmath>
#include <thread>

#include "fixture.h"
#include "vrampool/vrampool.hpp"

using namespace vrampool;
using namespace vrampool::client;
using namespace vrampool::client::testing;

namespace {

struct Mapping : Fixture {
  vp_view view{};
  std::array<vp_range, 8> ranges{};
  vp_status map(vp_segment s, std::uint32_t flags, std::uint64_t offset = 0, std::uint64_t bytes = 0,
                vp_on_loss on_loss = VP_ON_LOSS_POISON) {
    auto o = VP_INIT(vp_map_options);
    o.flags = flags;
    o.offset = offset;
    o.bytes = bytes;
    o.on_loss = on_loss;
    return vp_map(s, &o, &view, ranges.data());
  }
  vp_view_info status() const {
    auto info = VP_INIT(vp_view_info);
    REQUIRE(vp_map_status(view, &info) == VP_OK);
    return info;
  }
};

struct Losses {
  std::atomic<int> count{0};
  std::atomic<int> status{0};
  std::atomic<std::uint64_t> offset{0};
};
void note_loss(const vp_loss* loss, void* user) {
  auto& l = *static_cast<Losses*>(user);
  l.status = loss->status;
  l.offset = loss->offset;
  ++l.count;
}

}  // namespace

TEST_CASE_FIXTURE(Mapping, "a resident map holds all bytes and never faults") {
  pool.add("a", 200000);
  connect();
  REQUIRE(map(open("a"), VP_MAP_RESIDENT) == VP_OK);
  CHECK(ranges[0].bytes == 212992);
  CHECK(wrong_bytes(ranges[0].data, ranges[0].bytes, 0) == 0);
  CHECK(pool.faults == 0);
  CHECK(status().status == VP_OK);
  CHECK(status().lazy == 0);
  CHECK(vp_unmap(view) == VP_OK);
  CHECK(vp_unmap(view) == VP_INVALID);
  CHECK(pool.unmaps == 1);
}

TEST_CASE("a lazy map fetches the pages that are touched, and only those") {
  for_each_source([] {
    Mapping m;
    m.pool.add("a", 64 * 16384);
    m.connect();
    REQUIRE(m.map(m.open("a"), VP_MAP_LAZY) == VP_OK);
    CHECK(m.pool.faults == 0);
    CHECK(wrong_bytes(m.ranges[0].data, 16384, 0) == 0);
    const auto* far = static_cast<const std::byte*>(m.ranges[0].data) + 50 * 16384 + 77;
    CHECK(wrong_bytes(far, 1, 50 * 16384 + 77) == 0);
    CHECK(m.pool.faults >= 2);
    CHECK(m.pool.faults < 20);
    CHECK(m.status().lazy == 1);
    CHECK(vp_unmap(m.view) == VP_OK);
  });
}

TEST_CASE("a range that starts inside a page is mapped where it starts") {
  for_each_source([] {
    Mapping m;
    m.pool.add("a", 64 * 16384);
    m.connect();
    REQUIRE(m.map(m.open("a"), VP_MAP_LAZY, 100001, 50000) == VP_OK);
    CHECK(m.ranges[0].bytes == 50000);
    CHECK(wrong_bytes(m.ranges[0].data, 50000, 100001) == 0);
  });
}

TEST_CASE_FIXTURE(Mapping, "a list of tensors has one range each, in the order asked") {
  pool.add("a", 64 * 16384, {tensor("x", 0, 1000), tensor("y", 500000, 40000), tensor("z", 100, 60000)});
  connect();
  const vp_segment s = open("a");
  const char* names[] = {"y", "x", "z"};
  auto o = VP_INIT(vp_map_options);
  o.tensors = names;
  o.tensor_count = 3;
  for (const std::uint32_t flags : {VP_MAP_RESIDENT, VP_MAP_LAZY}) {
    o.flags = flags;
    REQUIRE(vp_map(s, &o, &view, ranges.data()) == VP_OK);
    CHECK(wrong_bytes(ranges[0].data, ranges[0].bytes, 500000) == 0);
    CHECK(ranges[0].bytes == 40000);
    CHECK(wrong_bytes(ranges[1].data, ranges[1].bytes, 0) == 0);
    CHECK(wrong_bytes(ranges[2].data, ranges[2].bytes, 100) == 0);
    CHECK(vp_unmap(view) == VP_OK);
  }
  names[1] = "nothing";
  CHECK(vp_map(s, &o, &view, ranges.data()) == VP_NOT_FOUND);
}

TEST_CASE_FIXTURE(Mapping, "wishes that cannot be are refused") {
  pool.add("a", 65536);
  connect();
  const vp_segment s = open("a");
  CHECK(map(s, VP_MAP_LAZY, 65536, 0) == VP_INVALID);
  CHECK(map(s, VP_MAP_LAZY, 0, 70000) == VP_INVALID);
  CHECK(map(s, 8) == VP_INVALID);
  CHECK(map(s, VP_MAP_LAZY, 0, 0, static_cast<vp_on_loss>(7)) == VP_INVALID);
}

TEST_CASE("a lost page reads as NaN, the error sticks and the callback hears of it") {
  for_each_source([] {
    Mapping m;
    m.pool.add("a", 64 * 16384).lost.insert(5);
    m.connect();
    Losses losses;
    REQUIRE(vp_set_error_callback(m.session, note_loss, &losses) == VP_OK);
    REQUIRE(m.map(m.open("a"), VP_MAP_LAZY) == VP_OK);
    const auto* floats = static_cast<const float*>(m.ranges[0].data);
    CHECK(std::isnan(floats[5 * 4096 + 9]));
    const vp_view_info info = m.status();  // at once: the loss may not be overtaken
    CHECK(info.status == VP_LOST);
    CHECK(info.first_lost == 5 * 16384);
    CHECK(info.pages_lost == 1);
    CHECK(wrong_bytes(m.ranges[0].data, 16384, 0) == 0);
    CHECK(m.status().status == VP_LOST);
    CHECK(soon([&] { return losses.count == 1; }));
    CHECK(losses.status == VP_LOST);
    CHECK(losses.offset == 5 * 16384);
  });
}

TEST_CASE_FIXTURE(Mapping, "the C++ face maps, sums and reports in exceptions") {
  pool.add("a", 65536, {tensor("w", 16384, 32768)});
  const auto s = vp::Session::connect(directory.socket(), "test");
  const vp::Segment a = s.open("a");
  CHECK(a.tensors().size() == 1);
  const vp::View v = a.map_tensor("w", {.lazy = true});
  CHECK(v.as<std::byte>().size() == 32768);
  CHECK(wrong_bytes(v.as<std::byte>().data(), 32768, 16384) == 0);
  CHECK_NOTHROW(v.check());
  std::array<std::byte, 64> b;
  vp::Token t = a.read_async(10, b);
  t.wait();
  CHECK(wrong_bytes(b.data(), b.size(), 10) == 0);
  CHECK_THROWS_AS(s.open("nothing"), vp::Error);
  try {
    s.open("nothing");
  } catch (const vp::Error& e) {
    CHECK(e.code() == VP_NOT_FOUND);
  }
}

TEST_CASE_FIXTURE(Mapping, "threads map, touch and unmap at once") {
  pool.add("a", 64 * 16384);
  connect();
  const vp_segment s = open("a");
  std::atomic<std::uint64_t> wrong{0}, failed{0};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < 20; ++i) {
        auto o = VP_INIT(vp_map_options);
        o.flags = i % 2 == 0 ? VP_MAP_LAZY : VP_MAP_RESIDENT;
        o.offset = (t * 20 + i) % 32 * 16384;
        o.bytes = 20000;
        vp_view v{};
        vp_range r{};
        if (vp_map(s, &o, &v, &r) != VP_OK) {
          ++failed;
          continue;
        }
        wrong += wrong_bytes(r.data, r.bytes, o.offset);
        failed += vp_unmap(v) != VP_OK;
      }
    });
  }
  for (auto& t : threads) t.join();
  CHECK(failed == 0);
  CHECK(wrong == 0);
}
