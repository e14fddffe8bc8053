// Where data planes are hurt: full memory, damaged bytes, silent homes, strangers, late writers.
#include <sys/stat.h>
#include <sys/vfs.h>

#include <fstream>

#include "data_rig.h"
#include "platform/shared_object.h"
#include "transport/tcp/socket.h"

using namespace vrampool;
using namespace vrampool::service;
using namespace vrampool::service::test;

namespace {

// A tmpfs of its own for one member of a rig; off where we may not mount.
class TinyMemory {
 public:
  TinyMemory(MemberNo whose, std::uint64_t bytes) : whose_(whose), bytes_(bytes) {}
  ~TinyMemory() {
    if (!mounted_) return;
    (void)platform::unmount_memory_filesystem(directory_);
    std::error_code ignored;
    std::filesystem::remove_all(std::filesystem::path(directory_).parent_path(), ignored);
  }
  void prepare(DataPlaneOptions& o) {
    if (o.self.member != whose_ || mounted_) return;
    directory_ = o.memory_dir;
    mounted_ = platform::mount_memory_filesystem(directory_, bytes_).ok();
  }
  bool mounted() const { return mounted_; }

 private:
  MemberNo whose_;
  std::uint64_t bytes_;
  std::string directory_;
  bool mounted_ = false;
};

void damage(const std::string& directory, std::string_view suffix, std::uint64_t at) {
  for (const auto& e : std::filesystem::directory_iterator(directory)) {
    if (!e.path().string().ends_with(suffix)) continue;
    std::fstream f(e.path(), std::ios::in | std::ios::out | std::ios::binary);
    f.seekp(static_cast<std::streamoff>(at));
    f.put('\x5a');
  }
}

std::uint64_t allocated(const std::string& directory) {
  std::uint64_t sum = 0;
  for (const auto& e : std::filesystem::directory_iterator(directory)) {
    struct stat s {};
    ::stat(e.path().c_str(), &s);
    sum += static_cast<std::uint64_t>(s.st_blocks) * 512;
  }
  return sum;
}

}  // namespace

TEST_CASE("a full memory file system is an answer, not a signal") {
  TinyMemory tiny(MemberNo{2}, 4u << 20);
  Rig rig(2, [&](DataPlaneOptions& o) { tiny.prepare(o); });
  if (!tiny.mounted()) {
    MESSAGE("skipped: mounting a tmpfs needs root");
    return;
  }
  const Record r = rig.record(512 * kPage, {{1, 512 * kPage}});
  REQUIRE(rig.create(r).ok());
  auto bulk = rig[0].bulk_channel();
  Status s = bulk->write(r, 0, Rig::pattern(0, 512 * kPage));
  if (s) s = bulk->flush();
  REQUIRE_FALSE(s.ok());
  CHECK(s.error().code == VP_NO_SPACE);
  REQUIRE(await<void>([&](auto done) { rig[1].free_piece({r->id, 0}, done); }).ok());
  const Record small = rig.sealed_segment({{1, 64 * kPage}});
  std::vector<std::byte> all(small->bytes);
  CHECK(rig[0].bulk_channel()->read(small, 0, all).ok());
  CHECK(all == Rig::pattern(0, all.size()));
}

TEST_CASE("a cache on a full memory file system makes room by itself") {
  TinyMemory tiny(MemberNo{1}, 6u << 20);
  Rig rig(2, [&](DataPlaneOptions& o) { tiny.prepare(o); });
  if (!tiny.mounted()) {
    MESSAGE("skipped: mounting a tmpfs needs root");
    return;
  }
  const Record r = rig.sealed_segment({{1, 1024 * kPage}}, 1);
  Mapping map(rig[0], r, sources().back());
  REQUIRE(map.status().ok());
  CHECK(map.wrong_pages() == 0);
  CHECK(rig[0].figures().evicted_pages > 0);
}

TEST_CASE("bytes that changed under their checksum are never shown") {
  Rig rig(2);
  const Record r = rig.sealed_segment({{1, 8 * kPage}});
  damage(rig.directory(1), ".d", 3 * kPage + 77);
  std::vector<std::byte> all(r->bytes);
  CHECK(rig[0].bulk_channel()->read(r, 0, all).error().code == VP_CORRUPT);
  CHECK(rig[1].bulk_channel()->read(r, 0, all).error().code == VP_CORRUPT);
  Mapping map(rig[0], r, sources().back());
  REQUIRE(map.status().ok());
  CHECK(map.bytes()[3 * kPage + 78] == std::byte{0xff});
  CHECK(map.bytes()[4 * kPage] == Rig::pattern_at(4 * kPage));
  CHECK(rig[0].figures().crc_errors > 0);
}

TEST_CASE("a home that accepts and says nothing is given up at the deadline; others go on") {
  Rig rig(2, [](DataPlaneOptions& o) { o.fault_deadline = Duration::millis(600); });
  const Record r = rig.sealed_segment({{1, 8 * kPage}});
  auto silent = transport::tcp::Listener::open("127.0.0.1", 0);
  REQUIRE(silent.ok());
  wire::ViewT view;
  view.epoch = Epoch{{9, MemberNo{1}}, 1};
  for (int i = 0; i < 2; ++i) {
    auto m = std::make_unique<wire::ViewMemberT>();
    m->member = rig.member(i).value;
    m->life = rig.sender(i).life.value;
    view.members.push_back(std::move(m));
  }
  rig[0].set_members(view, {{rig.member(1), rig.sender(1).life, "127.0.0.1", silent->port(), false}});
  Mapping map(rig[0], r, sources().back());
  REQUIRE(map.status().ok());
  CHECK(map.bytes()[kPage] == std::byte{0xff});
  Channel channel(rig[0], true);
  const auto a = channel.read(r->id, 0, 100);
  CHECK(a.header.kind == wire::DataKind::failure);
  CHECK((a.header.status == VP_TIMEOUT || a.header.status == VP_UNREACHABLE));
}

TEST_CASE("a stranger without a ticket is turned away, and a ticket opens once") {
  Rig rig(2);
  const auto knock = [&](const wire::Ticket& ticket) {
    auto fd = transport::tcp::connect("127.0.0.1", rig[1].data_port());
    REQUIRE(fd.ok());
    wire::DataHeader h;
    h.kind = wire::DataKind::hello;
    h.source = rig.sender(0);
    h.destination = rig.member(1);
    h.payload_bytes = wire::kTicketBytes;
    const auto head = wire::encode(h);
    eventually([&] { return platform::send_some(fd->get(), head).ok(); });
    REQUIRE(platform::send_all(fd->get(), ticket, {}, Duration::seconds(5)).ok());
    wire::DataHeaderBytes bytes;
    platform::DescriptorList none;
    REQUIRE(platform::receive_all(fd->get(), bytes, none, Duration::seconds(5)).ok());
    const auto answer = wire::decode_data_header(bytes);
    REQUIRE(answer.ok());
    return *answer;
  };
  CHECK(knock(wire::Ticket{}).status == VP_DENIED);
  const auto ticket = rig[1].issue_ticket(rig.sender(0));
  CHECK(knock(ticket).kind == wire::DataKind::hello_ok);
  CHECK(knock(ticket).status == VP_DENIED);
  const auto old_life = rig[1].issue_ticket({rig.member(0), Life{99}});
  CHECK(knock(old_life).kind == wire::DataKind::failure);
}

TEST_CASE("writers that race the freeze leave bytes that match their checksums for ever") {
  Rig rig(2);
  const Record r = rig.record(256 * kPage, {{1, 256 * kPage}});
  REQUIRE(rig.create(r).ok());
  std::atomic<bool> started{false};
  std::thread writer([&] {
    auto bulk = rig[0].bulk_channel();
    for (std::uint64_t round = 0; round < 1000; ++round) {
      const Status s = bulk->write(r, 0, Rig::pattern(round * 12345, r->bytes));
      const Status flushed = s ? bulk->flush() : s;
      started = true;
      if (flushed) continue;
      CHECK(flushed.error().code == VP_STALE);
      return;
    }
  });
  CHECK(eventually([&] { return started.load(); }));
  const Record sealed = rig.seal(r);
  std::vector<std::byte> first(r->bytes), second(r->bytes);
  CHECK(rig[0].bulk_channel()->read(sealed, 0, first).ok());
  writer.join();
  CHECK(rig[0].bulk_channel()->read(sealed, 0, second).ok());
  CHECK(first == second);
}

TEST_CASE("a map that asked to wait waits for its home") {
  Rig rig(2, [](DataPlaneOptions& o) { o.fault_deadline = Duration::millis(300); });
  const Record r = rig.sealed_segment({{1, 8 * kPage}});
  Mapping map(rig[0], r, sources().back(), 0, 0, false, 1);
  REQUIRE(map.status().ok());
  rig.stop(1);
  rig.introduce();
  std::atomic<bool> read{false};
  std::thread reader([&] {
    CHECK(map.bytes()[2 * kPage] == Rig::pattern_at(2 * kPage));
    read = true;
  });
  CHECK(eventually([&] { return rig[0].figures().faults > 0; }));
  CHECK_FALSE(read.load());
  rig.start(1);
  rig.open(r);
  rig.introduce();
  CHECK(eventually([&] { return read.load(); }));
  reader.join();
}

TEST_CASE("pages of a resident map are not punched; when it is gone and room is wanted its cache goes whole") {
  Rig rig(2, [](DataPlaneOptions& o) { o.cache_bytes = 128 * kPage; });
  const Record kept = rig.sealed_segment({{1, 100 * kPage}});
  const Record other = rig.sealed_segment({{1, 120 * kPage}});
  auto resident = std::make_unique<Mapping>(rig[0], kept, sources().back(), 0, 0, true);
  REQUIRE_MESSAGE(resident->status().ok(), resident->status().error().message);
  Mapping lazy(rig[0], other, sources().back());
  CHECK(lazy.wrong_pages() == 0);
  CHECK(resident->wrong_pages() == 0);
  Mapping too_much(rig[0], other, sources().back(), 0, 0, true);
  CHECK(too_much.status().error().code == VP_NO_SPACE);
  REQUIRE(await<void>([&](auto done) { rig[0].unmap(Mapping::kClient, resident->number(), done); }).ok());
  CHECK(resident->wrong_pages() == 0);  // unmapped at the daemon, not yet by the client
  CHECK(lazy.wrong_pages() == 0);
  CHECK(eventually([&] { return rig[0].figures().cache_bytes <= 128 * kPage; }));
  CHECK(resident->wrong_pages() == 0);  // unlinked perhaps; the client's bytes stay
}

TEST_CASE("a lazy view of 350 GiB on another node costs what is touched") {
  Rig rig(2);
  constexpr std::uint64_t kHuge = 350ull << 30;
  const Record r = rig.record(kHuge, {{1, kHuge}});
  REQUIRE(rig.create(r).ok());
  auto bulk = rig[0].bulk_channel();
  REQUIRE(bulk->write(r, kHuge / 2, Rig::pattern(kHuge / 2, 4 * kPage)).ok());
  REQUIRE(bulk->flush().ok());
  const Record sealed = rig.seal(r);
  Mapping map(rig[0], sealed, sources().back());
  REQUIRE_MESSAGE(map.status().ok(), map.status().error().message);
  CHECK(map.bytes()[kHuge / 2 + 5] == Rig::pattern_at(kHuge / 2 + 5));
  CHECK(map.bytes()[kHuge - 1] == std::byte{0});
  CHECK(map.bytes()[0] == std::byte{0});
  CHECK(allocated(rig.directory(0)) + allocated(rig.directory(1)) < 32u << 20);
}

TEST_CASE("a client that goes takes its views along") {
  Rig rig(2);
  const Record r = rig.sealed_segment({{1, 8 * kPage}});
  {
    Mapping map(rig[0], r, sources().back());
    REQUIRE(map.status().ok());
    CHECK(rig[0].figures().views == 1);
  }
  rig[0].client_gone(Mapping::kClient);
  CHECK(eventually([&] { return rig[0].figures().views == 0; }));
}

TEST_CASE("a copy on another node takes over when the home goes, and nobody sees poison") {
  Rig rig(3);
  const Record r = rig.sealed_segment({{1, 40 * kPage}, {2, 40 * kPage, 1}});
  Mapping map(rig[0], r, sources().back());
  REQUIRE(map.status().ok());
  CHECK(map.bytes()[0] == Rig::pattern_at(0));
  rig.stop(1);
  rig.introduce();
  CHECK(map.wrong_pages() == 0);
  CHECK(rig.losses().empty());
  Channel channel(rig[0], false);
  CHECK(channel.read(r->id, 7, 3 * kPage).payload == Rig::pattern(7, 3 * kPage));
}

TEST_CASE("a home that restarts with its memory is waited for, not lost") {
  Rig rig(2);
  const Record r = rig.sealed_segment({{1, 40 * kPage}});
  Mapping map(rig[0], r, sources().back());
  REQUIRE(map.status().ok());
  CHECK(map.bytes()[0] == Rig::pattern_at(0));
  rig.stop(1);
  std::thread reader([&] { CHECK(map.bytes()[30 * kPage] == Rig::pattern_at(30 * kPage)); });
  rig.start(1);
  rig.open(r);
  rig.introduce();  // its life changed, its incarnation did not
  reader.join();
  CHECK(map.wrong_pages() == 0);
  CHECK(rig.losses().empty());
}

TEST_CASE("a segment that not everybody may read is named by those to whom it was opened") {
  Rig rig(2);
  const Record sealed = rig.sealed_segment({{0, 2 * kPage}, {1, 2 * kPage}});
  auto closed = std::make_shared<wire::RecordT>(*sealed);
  closed->mode = 0600;
  rig.open(closed);
  Channel channel(rig[0], false);
  CHECK(channel.read(sealed->id, 0, 10).header.status == VP_DENIED);
  rig[0].allow(Mapping::kClient, sealed->id);
  CHECK(channel.read(sealed->id, 0, 10).payload == Rig::pattern(0, 10));
}
