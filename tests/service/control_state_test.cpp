// What is on disk: identity and lives, the pool key, tokens, and the files of imports.
#include <sys/stat.h>

#include "control_rig.h"
#include "service/file_rights.h"
#include "service/page_writer.h"
#include "service/pool_key.h"
#include "service/store.h"

using namespace vrampool;
using namespace vrampool::service;

TEST_CASE("a state directory serves one daemon, and says so to the second") {
  const TempDir dir;
  auto first = Store::open(dir.path() + "/s");
  REQUIRE(first.ok());
  const auto second = Store::open(dir.path() + "/s");
  REQUIRE_FALSE(second.ok());
  CHECK(second.error().code == VP_BUSY);
  CHECK(second.error().message.find("another vrampoold") != std::string::npos);
}

TEST_CASE("every start is a new life; the incarnation lasts as long as the memory does") {
  const TempDir dir;
  const std::string memory = dir.path() + "/memory";
  const auto begin = [&] {
    auto store = Store::open(dir.path() + "/s");
    REQUIRE(store.ok());
    auto birth = (*store)->begin_life(memory);
    REQUIRE(birth.ok());
    return *birth;
  };
  const Birth first = begin(), second = begin();
  CHECK(second.node == first.node);
  CHECK(second.life.value == first.life.value + 1);
  CHECK(second.incarnation == first.incarnation);
  REQUIRE(::unlink((memory + ".incarnation").c_str()) == 0);  // as after a reboot
  const Birth third = begin();
  CHECK(third.incarnation.value == third.life.value);
  CHECK(third.incarnation > first.incarnation);
}

TEST_CASE("a damaged registry is refused in one line that says what to do") {
  const TempDir dir;
  { REQUIRE(Store::open(dir.path() + "/s").ok()); }
  write_text(dir.path() + "/s/registry.db", std::string(8192, 'x'));
  const auto store = Store::open(dir.path() + "/s");
  REQUIRE_FALSE(store.ok());
  CHECK(store.error().code == VP_CORRUPT);
  CHECK(store.error().message.find("move it away") != std::string::npos);
  CHECK(store.error().message.find('\n') == std::string::npos);
}

TEST_CASE("a state directory that cannot be made is one clear line") {
  const TempDir dir;
  write_text(dir.path() + "/file", "x");
  const auto store = Store::open(dir.path() + "/file/s");
  REQUIRE_FALSE(store.ok());
  CHECK(store.error().message.find(dir.path() + "/file") != std::string::npos);
}

TEST_CASE("what membership persists comes back, in order and whole") {
  using namespace membership;
  const TempDir dir;
  const SegmentId id{MemberNo{2}, Life{3}, 4};
  {
    auto store = Store::open(dir.path());
    REQUIRE(store.ok());
    auto record = std::make_shared<wire::RecordT>();
    record->id = id;
    record->name = "a/b";
    auto change = std::make_shared<wire::ChangeT>();
    change->version = {Term{5, MemberNo{1}}, 9};
    auto old = std::make_shared<wire::ChangeT>();
    old->version = {Term{5, MemberNo{1}}, 8};
    Persist order;
    order.ops = {SetIdentity{{1, 2}, {}, MemberNo{3}},
                 SetPromise{Term{7, MemberNo{2}}},
                 PutRecord{record},
                 PutChange{old},
                 PutChange{change},
                 EraseChanges{old->version},
                 SetCommitted{{Term{5, MemberNo{1}}, 8}}};
    bool done = false;
    (*store)->persist(std::move(order), [&] { done = true; });
    (*store)->drain();
    CHECK(done);
  }
  auto store = Store::open(dir.path());
  REQUIRE(store.ok());
  const auto state = (*store)->load();
  REQUIRE(state.ok());
  CHECK(state->pool == PoolId{1, 2});
  CHECK(state->self == MemberNo{3});
  CHECK(state->promise == Term{7, MemberNo{2}});
  CHECK(state->committed.seq == 8);
  REQUIRE(state->records.contains(id));
  CHECK(state->records.at(id)->name == "a/b");
  REQUIRE(state->pending.size() == 1);
  CHECK(state->pending.front()->version.seq == 9);
}

TEST_CASE("an invitation is one line that survives copying or is refused") {
  const PoolKey key = PoolKey::make();
  const std::string token = to_token({"10.0.0.1:7420", key});
  CHECK(token.find_first_of(" \n\t") == std::string::npos);
  const auto back = parse_token(token);
  REQUIRE(back.ok());
  CHECK(back->address == "10.0.0.1:7420");
  CHECK(back->key.bytes == key.bytes);
  CHECK(back->key.pool == key.pool);
  for (std::size_t i = 0; i < token.find('@'); ++i) {
    std::string bent = token;
    bent[i] = bent[i] == '0' ? '1' : '0';
    CHECK_FALSE(parse_token(bent).ok());
  }
  CHECK_FALSE(parse_token("").ok());
  CHECK_FALSE(parse_token(token.substr(0, token.size() / 2)).ok());
}

TEST_CASE("a pool key that others may read is refused") {
  const TempDir dir;
  REQUIRE(write_pool_key(dir.path(), PoolKey::make()).ok());
  auto key = read_pool_key(dir.path());
  REQUIRE(key.ok());
  CHECK(key->has_value());
  REQUIRE(::chmod((dir.path() + "/pool.key").c_str(), 0644) == 0);
  CHECK(read_pool_key(dir.path()).error().code == VP_DENIED);
  REQUIRE(::chmod((dir.path() + "/pool.key").c_str(), 0600) == 0);
  write_text(dir.path() + "/pool.key", "nonsense");
  CHECK(read_pool_key(dir.path()).error().code == VP_CORRUPT);
}

TEST_CASE("a job reads only what the one who asked may read") {
  const TempDir dir;
  write_text(dir.path() + "/secret", "x");
  REQUIRE(::chmod((dir.path() + "/secret").c_str(), 0600) == 0);
  const FileRights stranger{12345, 12345, false}, root{0, 0, true};
  CHECK_FALSE(open_input(dir.path() + "/secret", stranger).ok());
  CHECK(open_input(dir.path() + "/secret", root).ok());
  REQUIRE(::chmod((dir.path() + "/secret").c_str(), 0644) == 0);
  CHECK_FALSE(open_input(dir.path() + "/secret", stranger).ok());  // the directory is 0700
  REQUIRE(::chmod(dir.path().c_str(), 0755) == 0);
  CHECK(open_input(dir.path() + "/secret", stranger).ok());
  CHECK_FALSE(check_output_directory(dir.path(), stranger).ok());
  CHECK_FALSE(open_input(dir.path(), root).ok());
  CHECK_FALSE(open_input("relative", root).ok());
}

TEST_CASE("pages are put together from ranges of any offsets and sizes") {
  unsigned seed = 1;
  const auto random = [&](unsigned below) {
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
  };
  for (int round = 0; round < 50; ++round) {
    // Ranges that lie one behind the other in the file, and with gaps and in another order in the segment.
    std::vector<wire::FileRangeT> ranges;
    std::string file, segment;
    for (int i = 0; i < 6; ++i) {
      wire::FileRangeT r;
      r.bytes = 1 + random(3 * kPageBytes);
      if (random(2)) segment.resize((segment.size() + kPageBytes - 1) / kPageBytes * kPageBytes);
      r.file_offset = file.size();
      r.segment_offset = segment.size();
      for (std::uint64_t b = 0; b < r.bytes; ++b) file.push_back(static_cast<char>(random(256)));
      segment += file.substr(r.file_offset);
      ranges.push_back(r);
    }
    segment.resize((segment.size() + kPageBytes - 1) / kPageBytes * kPageBytes);
    std::string got(segment.size(), '\0');
    PageWriter writer(ranges, [&](std::uint64_t offset, std::span<const std::byte> pages) -> Status {
      CHECK(offset % kPageBytes == 0);
      CHECK(pages.size() % kPageBytes == 0);
      got.replace(offset, pages.size(), reinterpret_cast<const char*>(pages.data()), pages.size());
      return {};
    });
    for (const auto& r : ranges)
      for (std::uint64_t done = 0; done < r.bytes;) {
        const std::uint64_t at = r.segment_offset + done,
                            n = std::min<std::uint64_t>(r.bytes - done, 2 * kPageBytes - at % kPageBytes);
        REQUIRE(writer.put(at, std::as_bytes(std::span(file.data() + r.file_offset + done, n))).ok());
        done += n;
      }
    CHECK(writer.complete());
    CHECK(got == segment);
  }
}
