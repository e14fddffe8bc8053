// The phases of a seed.
#include "tests_sim/simulation.h"

#include <algorithm>

namespace vrampool::sim {

inline constexpr std::int64_t kStormMs = 40'000;
inline constexpr std::int64_t kHealMs = 150'000;

namespace {
Climate draw(std::uint64_t seed) {
  Prng prng{seed ^ 0x5eed};
  prng.next();
  return climate_of(prng);
}
}  // namespace

Simulation::Simulation(std::uint64_t seed, bool trace) : world_(draw(seed), seed, trace), seed_(seed) {}

SeedResult run_seed(std::uint64_t seed, bool trace) { return Simulation(seed, trace).run(); }

SeedResult Simulation::run() {
  set_up();
  if (world_.ok()) storm();
  if (world_.ok()) heal();
  if (world_.ok()) demand();
  return {world_.why(), world_.hash(), world_.prng.next(), world_.counts};
}

void Simulation::set_up() {
  world_.calm = true;
  for (int n = 0; n < world_.climate.nodes; ++n) world_.add_node();
  world_.boot(0);
  world_.nodes[0].wants_to_join = false;
  world_.command(0, ms::Init{{7, 7}, "node-0", {"127.0.0.1:1"}, world_.nodes[0].machine});
  world_.run_for(500);
  const auto all_in = [&] {
    for (int n = 0; n < world_.climate.nodes; ++n)
      if (!world_.leased(n)) return false;
    return true;
  };
  for (int round = 0; round < 60 && world_.ok() && !all_in(); ++round) {
    admit_one();
    world_.run_for(500);
  }
  if (world_.ok() && !all_in()) world_.fail("the pool did not come up in calm weather");
  world_.calm = false;
}

void Simulation::storm() {
  const std::int64_t end = world_.now() + kStormMs;
  while (world_.ok() && world_.now() < end) {
    world_.run_for(50);
    if (!world_.ok()) return;
    misfortune();
    if (due(world_.climate.act_every)) act();
    if (due(world_.climate.promote_every)) promote_somebody();
    if (due(world_.climate.roster_every)) act_on_roster();
    if (due(world_.climate.force_every)) promote_by_force(random_running());
  }
}

void Simulation::misfortune() {
  Prng& prng = world_.prng;
  const int count = static_cast<int>(world_.nodes.size());
  const int n = static_cast<int>(prng.below(static_cast<std::uint64_t>(count)));
  if (due(world_.climate.cut_every)) {
    ++world_.counts.cuts;
    world_.mend_all();
    const bool one_way = prng.chance(40);
    const bool split = prng.chance(50);  // two groups; else single links
    const std::uint64_t side = prng.next();
    for (int a = 0; a < count; ++a)
      for (int b = 0; b < count; ++b) {
        const bool apart = split ? ((side >> a) & 1) != ((side >> b) & 1) : prng.chance(25);
        if (a == b || !apart || (one_way && prng.chance(50))) continue;
        world_.cut(a, b);
        if (!one_way) world_.cut(b, a);
      }
    world_.note("the network is cut anew");
  }
  if (due(world_.climate.cut_every)) world_.mend_all();
  if (due(world_.climate.crash_every) && world_.runs(n))
    world_.crash(n, prng.chance(25), prng.between(20, prng.chance(30) ? 8000 : 800));
  if (due(world_.climate.pause_every) && world_.runs(n)) world_.pause(n, prng.between(100, 7000), false);
  if (due(world_.climate.suspend_every) && world_.runs(n)) world_.pause(n, prng.between(3000, 20000), true);
  const auto members = std::count_if(world_.nodes.begin(), world_.nodes.end(),
                                     [](const Node& node) { return !node.wants_to_join && !node.abandoned; });
  const bool last =
      members < 2 || world_.nodes[static_cast<std::size_t>(n)].abandoned;  // a pool whose every disk is lost is lost
  if (due(world_.climate.disk_loss_every) && !last) world_.lose_disk(n);
}

void Simulation::heal() {
  world_.note("heal");
  world_.mend_all();
  world_.calm = true;
  for (std::size_t n = 0; n < world_.nodes.size(); ++n) {
    world_.nodes[n].paused_until = std::min(world_.nodes[n].paused_until, world_.now() + 20);
    if (!world_.runs(static_cast<int>(n)) && !world_.nodes[n].wants_to_join) world_.boot(static_cast<int>(n));
  }
  leaderless_since_ = world_.now();
  const std::int64_t end = world_.now() + kHealMs;
  while (world_.ok() && world_.now() < end) {
    world_.run_for(500);
    recheck_abandoned();
    if (world_.coordinator() >= 0) leaderless_since_ = world_.now();
    if (world_.now() - leaderless_since_ > 4 * world_.climate.detection) {
      leaderless_since_ = world_.now();
      if (++promotions_failed_ > 4) {
        promote_by_force(random_running());
      } else {
        promote_somebody();
      }
    }
    forget_the_gone();
    admit_one();
    remove_leftovers();
    if (healed()) return;
  }
  if (world_.ok()) world_.fail("no liveness: the pool did not come together after the storm");
}

bool Simulation::healed() {
  if (std::any_of(world_.ops.begin(), world_.ops.end(), [](const Op& op) { return !op.done && !op.lost; }))
    return false;
  for (std::size_t n = 0; n < world_.nodes.size(); ++n) {
    const Node& node = world_.nodes[n];
    if (!world_.leased(static_cast<int>(n)) || node.abandoned) return false;
    if (ms::is_joint(node.m->roster()) || node.m->roster().entries.size() != world_.nodes.size()) return false;
    for (const auto& record : node.m->records())
      if (record->state == wire::SegmentState::deleted || record->state == wire::SegmentState::creating) return false;
  }
  return world_.coordinator() >= 0;
}

void Simulation::demand() {
  for (std::size_t n = 0; n < world_.nodes.size() && world_.ok(); ++n)
    if (!demand_from(static_cast<int>(n)) && world_.ok())
      world_.fail(fmt::format("no liveness: node {} cannot create, seal, rename and remove", n));
  world_.run_for(5000);
  if (world_.ok()) world_.check_quiet();
}

bool Simulation::demand_from(int n) {
  const std::string name = fmt::format("demand-{}", n);
  const wire::RecordT record = new_record(n, name);
  Known& known = world_.segments[record.id];
  if (wait(world_.command(n, ms::Create{record, true}), 10'000) != VP_OK) return false;
  known.may_be_sealed = true;
  wire::RecordT id_only;
  id_only.id = record.id;
  if (wait(world_.command(n, ms::Seal{id_only, false, false}), 10'000) != VP_OK) return false;
  for (const Node& node : world_.nodes) {
    const auto found = node.m->find_by_name(name);
    if (!found || found->id != record.id) return false;
  }
  if (wait(world_.command(n, ms::Rename{record.id, name + "-b"}), 10'000) != VP_OK) return false;
  known.may_go = true;
  return wait(world_.command(n, ms::Remove{record.id}), 10'000) == VP_OK;
}

std::optional<vp_status> Simulation::wait(std::uint64_t op, std::int64_t limit_ms) {
  world_.run_until([&] { return world_.ops[op].done.has_value() || world_.ops[op].lost; }, limit_ms);
  if (!world_.ops[op].done) return std::nullopt;
  return world_.ops[op].done->code;
}

}  // namespace vrampool::sim
