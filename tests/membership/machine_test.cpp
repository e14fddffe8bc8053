// One machine alone: what a single-node pool does, what it refuses, and what it holds back until the disk has it.
#include "membership/machine.h"

#include <doctest/doctest.h>

#include "membership/reconcile.h"

using namespace vrampool;
using namespace vrampool::membership;

namespace {
// A node whose disk answers when the test says so.
struct Host {
  explicit Host(DurableState state = {}, std::uint64_t life = 1)
      : disk(std::move(state)), machine(options(life), disk, now) {}
  static Options options(std::uint64_t life) {
    Options o;
    o.node = {1, 2};
    o.life = Life{life};
    o.incarnation = Incarnation{1};
    return o;
  }
  void give(const Input& input) {
    Outbox out;
    machine.step(input, now, out);
    for (Output& output : out) {
      if (auto* persist = std::get_if<Persist>(&output)) writing.push_back(std::move(*persist));
      if (auto* done = std::get_if<CommandDone>(&output)) this->done.push_back(std::move(*done));
      if (auto* applied = std::get_if<RecordApplied>(&output)) seen.push_back(applied->record);
      if (std::holds_alternative<Send>(output)) ++sent;
    }
  }
  void write() {
    while (!writing.empty()) {
      const Persist order = std::move(writing.front());
      writing.erase(writing.begin());
      for (const DurableOp& op : order.ops) apply(disk, op);
      give(Persisted{order.no});
    }
  }
  CommandDone run(decltype(Command::what) what) {
    give(Command{++commands, std::move(what)});
    write();
    for (int i = 0; i < 100 && (done.empty() || done.back().no != commands); ++i) tick();
    REQUIRE(!done.empty());
    REQUIRE(done.back().no == commands);
    return done.back();
  }
  void tick() {
    now = now + Duration::millis(kTickEveryMs);
    give(Tick{});
    write();
  }
  wire::RecordT record(const char* name) {
    wire::RecordT r;
    r.id = machine.next_segment_id();
    r.name = name;
    r.bytes = kPageBytes;
    r.creator = {machine.self(), machine.life()};
    auto piece = std::make_unique<wire::PieceT>();
    piece->node = machine.self().value;
    piece->bytes = kPageBytes;
    r.pieces.push_back(std::move(piece));
    return r;
  }
  wire::RecordT only_id(SegmentId id) {
    wire::RecordT r;
    r.id = id;
    return r;
  }

  Instant now{Duration::seconds(1000).ns};
  DurableState disk;
  Machine machine;
  std::vector<Persist> writing;
  std::vector<CommandDone> done;
  std::vector<RecordRef> seen;
  std::uint64_t commands = 0;
  int sent = 0;
};

Host pool_of_one() {
  Host host;
  CHECK(host.run(Init{{5, 6}, "solo", {}, "m"}).code == VP_OK);
  return host;
}
}  // namespace

TEST_CASE("a pool of one commits as soon as its disk has it") {
  Host host = pool_of_one();
  CHECK(host.machine.is_coordinator());
  CHECK(host.machine.lease_holds(host.now));
  const wire::RecordT record = host.record("llama");
  CHECK(host.run(Create{record, false}).code == VP_OK);
  CHECK(host.machine.find_by_name("llama") == nullptr);
  CHECK(host.machine.find_reserved("llama"));
  const CommandDone sealed = host.run(Seal{host.only_id(record.id), false, false});
  CHECK(sealed.code == VP_OK);
  REQUIRE(sealed.record);
  CHECK(sealed.record->state == wire::SegmentState::sealed);
  CHECK((sealed.record->address >> 48) == 1);
  CHECK(host.machine.find_by_name("llama"));
  CHECK(host.sent == 0);
}

TEST_CASE("nothing is answered before the disk has it") {
  Host host = pool_of_one();
  host.give(Command{77, Create{host.record("x"), false}});
  CHECK(host.done.back().no != 77);
  CHECK(host.machine.find_reserved("x") == nullptr);
  host.write();
  CHECK(host.done.back().no == 77);
  CHECK(host.machine.find_reserved("x"));
}

TEST_CASE("the same create twice is one segment") {
  Host host = pool_of_one();
  const wire::RecordT record = host.record("x");
  CHECK(host.run(Create{record, false}).code == VP_OK);
  CHECK(host.run(Create{record, false}).code == VP_OK);
  CHECK(host.machine.records().size() == 1);
}

TEST_CASE("a removed segment's id stays used up") {
  Host host = pool_of_one();
  const wire::RecordT record = host.record("x");
  host.run(Create{record, false});
  CHECK(host.run(Remove{record.id}).code == VP_OK);
  REQUIRE(host.machine.find(record.id));
  CHECK(host.machine.find(record.id)->state == wire::SegmentState::deleted);
  CHECK(host.run(Freed{record.id}).code == VP_OK);
  CHECK(host.machine.find(record.id) == nullptr);
  CHECK(host.run(Create{record, false}).code == VP_STALE);
}

TEST_CASE("names: taken, differing by case, and malformed ones are refused") {
  Host host = pool_of_one();
  const wire::RecordT record = host.record("models/a");
  host.run(Create{record, false});
  CHECK(host.run(Create{host.record("models/a"), false}).code == VP_EXISTS);
  CHECK(host.run(Create{host.record("models/A"), false}).code == VP_EXISTS);
  CHECK(host.run(Create{host.record("../etc"), false}).code == VP_INVALID);
  host.run(Seal{host.only_id(record.id), false, false});
  CHECK(host.run(Create{host.record("models/a"), true}).code == VP_EXISTS);
  const wire::RecordT newer = host.record("models/a");
  CHECK(host.run(Create{newer, false}).code == VP_OK);
  CHECK(host.run(Seal{host.only_id(newer.id), false, false}).code == VP_OK);
  CHECK(host.machine.find_by_name("models/a")->id == newer.id);
  CHECK(host.machine.find(record.id)->state == wire::SegmentState::deleted);
  const wire::RecordT other = host.record("other");
  host.run(Create{other, false});
  host.run(Seal{host.only_id(other.id), false, false});
  CHECK(host.run(Rename{other.id, "models/a"}).code == VP_EXISTS);
  CHECK(host.run(Rename{other.id, "elsewhere"}).code == VP_OK);
  CHECK(host.machine.find_by_name("other") == nullptr);
}

TEST_CASE("the replaced segment can live on without a name") {
  Host host = pool_of_one();
  const wire::RecordT first = host.record("m");
  host.run(Create{first, false});
  host.run(Seal{host.only_id(first.id), false, false});
  const wire::RecordT second = host.record("m");
  host.run(Create{second, false});
  CHECK(host.run(Seal{host.only_id(second.id), false, true}).code == VP_OK);
  CHECK(host.machine.find(first.id)->state == wire::SegmentState::sealed);
  CHECK(host.machine.find(first.id)->name == "");
  CHECK(host.machine.find_by_name("m")->id == second.id);
}

TEST_CASE("a restart leads again in a higher term and gives out other addresses") {
  Host host = pool_of_one();
  const wire::RecordT record = host.record("x");
  const CommandDone created = host.run(Create{record, false});
  const Term before = host.machine.term();
  Host again(host.disk, 2);
  CHECK(again.machine.find_reserved("x"));
  for (int i = 0; i < 5; ++i) again.tick();
  CHECK(again.machine.is_coordinator());
  CHECK_FALSE(again.machine.is_recovering());
  CHECK(again.machine.term() > before);
  const CommandDone other = again.run(Create{again.record("y"), false});
  REQUIRE(other.record);
  CHECK((other.record->address >> 48) != (created.record->address >> 48));
  CHECK(again.machine.abandoned_creations() == std::vector<SegmentId>{record.id});
}

TEST_CASE("a node without a pool refuses everything but init") {
  Host host;
  CHECK(host.run(Remove{SegmentId{MemberNo{1}, Life{1}, 1}}).code == VP_NO_COORDINATOR);
  CHECK(host.run(Init{{5, 6}, "solo", {}, "m"}).code == VP_OK);
  CHECK(host.run(Init{{5, 6}, "solo", {}, "m"}).code == VP_EXISTS);
}

TEST_CASE("a copied node id is refused, a retried admission is the same member") {
  Host host = pool_of_one();
  const CommandDone first = host.run(Admit{{9, 9}, "b", {"h:1"}, "machine-b"});
  REQUIRE(first.code == VP_OK);
  CHECK(first.member == MemberNo{2});
  REQUIRE(first.roster);
  const CommandDone again = host.run(Admit{{9, 9}, "b", {"h:1"}, "machine-b"});
  CHECK(again.member == MemberNo{2});
  CHECK(host.run(Admit{{9, 9}, "c", {"h:2"}, "machine-c"}).code == VP_EXISTS);
  const DurableState joined = joined_state({9, 9}, first.member, *first.roster);
  CHECK(joined.pool == PoolId{5, 6});
  CHECK(joined.promise == host.machine.term());
}

TEST_CASE("a forgotten member's number is not given again") {
  Host host = pool_of_one();
  host.run(Admit{{9, 9}, "b", {}, "machine-b"});
  CHECK(host.run(Forget{MemberNo{2}}).code == VP_OK);
  CHECK(host.run(Forget{MemberNo{2}}).code == VP_OK);
  CHECK(host.run(Forget{MemberNo{7}}).code == VP_NOT_FOUND);
  CHECK(host.run(Forget{MemberNo{1}}).code == VP_BUSY);
  CHECK(host.run(Admit{{9, 9}, "b", {}, "machine-b"}).member == MemberNo{3});
}

TEST_CASE("pieces are judged by the registry, never the other way") {
  Host host = pool_of_one();
  const wire::RecordT live = host.record("live");
  const wire::RecordT gone = host.record("gone");
  host.run(Create{live, false});
  host.run(Create{gone, false});
  host.run(Remove{gone.id});
  const SegmentId unknown{MemberNo{1}, Life{1}, 99};
  const Instant old{host.now.ns - kOrphanKept.ns - 1};
  const std::vector<PieceFound> found = {
      {{live.id, 0}, Incarnation{1}, host.now}, {{live.id, 5}, Incarnation{1}, host.now},
      {{gone.id, 0}, Incarnation{1}, host.now}, {{unknown, 0}, Incarnation{1}, host.now},
      {{unknown, 1}, Incarnation{1}, old},      {{live.id, 0}, Incarnation{7}, host.now}};
  const std::vector<PieceVerdict> verdicts = reconcile(host.machine, Incarnation{1}, found, host.now);
  CHECK(verdicts == std::vector<PieceVerdict>{PieceVerdict::keep, PieceVerdict::orphan, PieceVerdict::free,
                                              PieceVerdict::orphan, PieceVerdict::free, PieceVerdict::void_});
  CHECK(host.machine.find(unknown) == nullptr);
}
