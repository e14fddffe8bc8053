// The two images of the registry: what is visible, and what is only on its way.
#include "membership/registry.h"

#include <doctest/doctest.h>

using namespace vrampool;
using namespace vrampool::membership;

namespace {
const Term kTerm{1, MemberNo{1}};

ChangeRef change_of(std::uint64_t seq, const char* name, wire::SegmentState state, std::uint64_t id,
                    bool reset = false) {
  auto change = std::make_shared<wire::ChangeT>();
  change->version = {kTerm, seq};
  change->reset = reset;
  auto record = std::make_unique<wire::RecordT>();
  record->id = {MemberNo{1}, Life{1}, id};
  record->version = change->version;
  record->name = name;
  record->state = state;
  change->records.push_back(std::move(record));
  return change;
}
}  // namespace

TEST_CASE("a change is invisible until it is committed") {
  Registry registry{DurableState{}};
  std::vector<DurableOp> ops;
  registry.append(change_of(1, "a", wire::SegmentState::sealed, 1), ops);
  CHECK(registry.published("a") == nullptr);
  CHECK(registry.tail_records().size() == 1);
  const Committed done = registry.commit({kTerm, 1}, ops);
  CHECK(done.applied.size() == 1);
  REQUIRE(registry.published("a"));
}

TEST_CASE("what lies before a reset is committed only together with it") {
  Registry registry{DurableState{}};
  std::vector<DurableOp> ops;
  registry.append(change_of(1, "left over", wire::SegmentState::sealed, 1), ops);
  auto reset = std::make_shared<wire::ChangeT>(*change_of(5, "new", wire::SegmentState::sealed, 2, true));
  reset->erased.push_back(std::make_unique<wire::SegmentKeyT>());
  reset->erased.back()->id = {MemberNo{1}, Life{1}, 1};
  registry.append(reset, ops);
  CHECK(registry.commit({kTerm, 4}, ops).applied.empty());
  CHECK(registry.published("left over") == nullptr);
  const Committed done = registry.commit({kTerm, 5}, ops);
  CHECK(done.applied.size() == 1);  // the left-over one was never seen by anybody
  CHECK(done.erased.empty());
  CHECK(registry.published("new"));
}

TEST_CASE("the index of names follows a swap") {
  Registry registry{DurableState{}};
  std::vector<DurableOp> ops;
  registry.append(change_of(1, "m", wire::SegmentState::sealed, 1), ops);
  registry.commit({kTerm, 1}, ops);
  auto swap = std::make_shared<wire::ChangeT>(*change_of(2, "m", wire::SegmentState::sealed, 2));
  swap->records.push_back(
      std::make_unique<wire::RecordT>(*change_of(2, "m", wire::SegmentState::deleted, 1)->records[0]));
  registry.append(swap, ops);
  registry.commit({kTerm, 2}, ops);
  REQUIRE(registry.published("m"));
  CHECK(registry.published("m")->id.count == 2);
}

TEST_CASE("the disk's operations rebuild the same registry") {
  DurableState disk;
  Registry registry{disk};
  const auto write = [&](std::vector<DurableOp> ops) {
    for (const DurableOp& op : ops) apply(disk, op);
  };
  for (std::uint64_t seq = 1; seq <= 6; ++seq) {
    std::vector<DurableOp> ops;
    registry.append(change_of(seq, ("n" + std::to_string(seq)).c_str(), wire::SegmentState::sealed, seq), ops);
    if (seq % 2 == 0) registry.commit({kTerm, seq - 1}, ops);
    write(std::move(ops));
  }
  const Registry again{disk};
  CHECK(again.position() == registry.position());
  CHECK(again.committed() == registry.committed());
  CHECK(again.records().size() == registry.records().size());
  CHECK(again.tail_records().size() == 6);
  CHECK(again.published("n5"));
  CHECK_FALSE(again.published("n6"));
}
