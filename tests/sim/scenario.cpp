// Reads a scenario line by line and drives the world with it.
#include "tests_sim/scenario.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "membership/reply_cache.h"
#include "membership/write_gate.h"
#include "tests_sim/world.h"

namespace vrampool::sim {

namespace {

using Words = std::vector<std::string>;

const std::map<std::string, int> kStatus = {{"ok", VP_OK},
                                            {"exists", VP_EXISTS},
                                            {"timeout", VP_TIMEOUT},
                                            {"stale", VP_STALE},
                                            {"busy", VP_BUSY},
                                            {"no-coordinator", VP_NO_COORDINATOR},
                                            {"recovering", VP_RECOVERING},
                                            {"unknown", VP_UNKNOWN_OUTCOME},
                                            {"invalid", VP_INVALID}};

class Runner {
 public:
  explicit Runner(bool trace) : world_(Climate{}, 1, trace) { world_.calm = true; }

  void run(const std::string& line, const Words& words) {
    line_ = line;
    Words w = words;
    expected_ = "ok";
    if (w.size() > 2 && w[w.size() - 2] == "->") {
      expected_ = w.back();
      w.resize(w.size() - 2);
    }
    if (!simple(w) && !command(w) && !gate(w) && !once(w)) fail("not understood");
    if (why_.empty() && !world_.ok()) fail(world_.why());
  }
  const std::string& why() const { return why_; }

 private:
  void fail(const std::string& text) {
    if (why_.empty()) why_ = fmt::format("'{}': {}", line_, text);
  }
  static int number(const std::string& text) { return std::atoi(text.c_str()); }
  MemberNo member(int n) const { return world_.nodes[static_cast<std::size_t>(n)].disk.self; }
  static std::vector<int> list(const std::string& text) {
    std::vector<int> numbers;
    std::stringstream in(text);
    for (std::string part; std::getline(in, part, ',');) numbers.push_back(number(part));
    return numbers;
  }

  bool simple(const Words& w) {
    const std::string& verb = w[0];
    const int a = w.size() > 1 ? number(w[1]) : 0;
    const int b = w.size() > 2 ? number(w[2]) : 0;
    if (verb == "nodes") return set_up(a), true;
    if (verb == "run") return world_.run_for(a), true;
    if (verb == "cut") return world_.cut(a, b), world_.cut(b, a), true;
    if (verb == "cut-one-way") return world_.cut(a, b), true;
    if (verb == "mend" && w.size() > 2) return world_.mend(a, b), world_.mend(b, a), true;
    if (verb == "mend") return world_.mend_all(), true;
    if (verb == "disk-stops" || verb == "disk-goes")
      return world_.nodes[static_cast<std::size_t>(a)].disk_stopped = verb == "disk-stops", true;
    if (verb == "hold") return world_.hold(a, b), true;
    if (verb == "release") return world_.release(a, b), true;
    if (verb == "crash") return world_.crash(a, false, -1), true;
    if (verb == "reboot") return world_.crash(a, true, -1), true;
    if (verb == "start") return world_.boot(a), true;
    if (verb == "pause") return world_.pause(a, b, false), true;
    if (verb == "suspend") return world_.pause(a, b, true), true;
    if (verb == "expect") return expect(w);
    return false;
  }

  void set_up(int count) {
    for (int n = 0; n < count; ++n) world_.add_node();
    world_.boot(0);
    world_.nodes[0].wants_to_join = false;
    world_.command(0, ms::Init{{7, 7}, "node-0", {}, world_.nodes[0].machine});
    for (int n = 1; n < count; ++n) {
      world_.run_for(2000);
      const auto op = world_.command(0, ms::Admit{world_.nodes[static_cast<std::size_t>(n)].id,
                                                  fmt::format("node-{}", n),
                                                  {},
                                                  world_.nodes[static_cast<std::size_t>(n)].machine});
      world_.run_until([&] { return world_.ops[op].done.has_value(); }, 5000);
      if (!world_.ops[op].done || !world_.adopt(n, *world_.ops[op].done)) return fail("node could not join");
    }
    world_.run_until([&] { return world_.leased(count - 1); }, 5000);
  }

  bool command(const Words& w) {
    const auto after = [&](const std::string& key) {
      const auto at = std::find(w.begin(), w.end(), key);
      return at == w.end() || at + 1 == w.end() ? std::string() : *(at + 1);
    };
    const bool has_at = std::find(w.begin(), w.end(), "at") != w.end();
    const int n = has_at ? number(after("at")) : w.size() > 1 ? number(w[1]) : 0;
    const std::string& verb = w[0];
    if (verb == "promote") {
      ms::Promote promote;
      for (const int gone : list(after("abandoning"))) {
        promote.abandoned.push_back(member(gone));
        world_.nodes[static_cast<std::size_t>(gone)].abandoned = true;
      }
      promote.force = !promote.abandoned.empty();
      return issue(n, promote);
    }
    if (verb == "forget") return issue(n, ms::Forget{member(number(w[1]))});
    if (verb == "leave") return issue(n, ms::Leave{});
    if (verb == "create") return create(n, w[1], after("name"), after("on"), w.back() == "fresh");
    if (verb != "seal" && verb != "remove" && verb != "rename") return false;
    const SegmentId id = ids_[w[1]];
    Known& known = world_.segments[id];
    if (verb == "remove") {
      known.may_go = true;
      return issue(n, ms::Remove{id});
    }
    if (verb == "rename") return known.names.insert(after("to")), issue(n, ms::Rename{id, after("to")});
    known.may_be_sealed = true;
    for (auto& [other, theirs] : world_.segments) theirs.may_go = theirs.may_go || other != id;
    wire::RecordT record;
    record.id = id;
    return issue(n, ms::Seal{std::move(record), false, false});
  }

  bool create(int n, const std::string& key, const std::string& name, const std::string& hosts, bool fresh) {
    Node& node = world_.nodes[static_cast<std::size_t>(n)];
    if (!node.m) return fail("that node is down"), true;
    wire::RecordT record;
    record.id = node.m->next_segment_id();
    record.name = name;
    record.bytes = 64 * kPageBytes;
    record.creator = {node.disk.self, node.life};
    std::uint32_t ordinal = 0;
    for (const int host : list(hosts)) {
      record.pieces.push_back(std::make_unique<wire::PieceT>());
      record.pieces.back()->ordinal = ordinal++;
      record.pieces.back()->node = member(host).value;
      record.pieces.back()->bytes = 16 * kPageBytes;
    }
    ids_[key] = record.id;
    world_.segments[record.id].names.insert(name);
    return issue(n, ms::Create{std::move(record), fresh});
  }

  bool issue(int n, decltype(ms::Command::what) what) {
    if (!world_.runs(n)) return fail("that node is down"), true;
    const auto op = world_.command(n, std::move(what));
    if (expected_ == "later") return true;
    world_.run_until([&] { return world_.ops[op].done || world_.ops[op].lost; }, 20'000);
    if (!world_.ops[op].done) return fail("did not end"), true;
    if (world_.ops[op].done->code != kStatus.at(expected_))
      fail(fmt::format("ended with {} {}", static_cast<int>(world_.ops[op].done->code), world_.ops[op].done->message));
    return true;
  }

  bool expect(const Words& w) {
    const auto check = [&](bool holds, const std::string& text) {
      if (!holds) fail(text);
      return true;
    };
    const std::string& what = w[1];
    if (what == "coordinator") {
      const int found = world_.coordinator();
      return check(found == (w[2] == "none" ? -1 : number(w[2])), fmt::format("it is node {}", found));
    }
    const int n = number(what == "name" ? w.back() : what == "alive" ? w[3] : w[2]);
    const Node& node = world_.nodes[static_cast<std::size_t>(n)];
    if (what == "pieces")
      return check(static_cast<int>(node.pieces.size()) == number(w[3]), fmt::format("it has {}", node.pieces.size()));
    if (what == "life")
      return check(static_cast<int>(node.life.value) == number(w[3]), fmt::format("it is {}", node.life.value));
    if (what == "lease") return check(world_.leased(n) == (w[3] == "yes"), "it is not so");
    if (what == "current") {  // current N life L of M yes|no
      const Node& judge = world_.nodes[static_cast<std::size_t>(number(w[6]))];
      const Sender sender{node.disk.self, Life{static_cast<std::uint64_t>(number(w[4]))}};
      return check(judge.m && judge.m->is_current(sender) == (w[7] == "yes"), "it is not so");
    }
    if (!node.m) return check(false, "that node is down");
    if (what == "name") {
      const auto found = node.m->find_by_name(w[2]);
      if (w[4] == "nothing") return check(!found, "it names " + (found ? to_text(found->id) : ""));
      return check(found && found->id == ids_[w[4]], found ? "it names " + to_text(found->id) : "it names nothing");
    }
    if (what == "alive") {
      ms::MemberSet wanted;
      for (std::size_t i = 4; i < w.size(); ++i) wanted.insert(member(number(w[i])));
      return check(ms::alive_members(node.m->view()) == wanted, "others are alive in its view");
    }
    return false;
  }

  // gate write BY.NO token T -> apply|already|busy|denied|frozen · gate end BY.NO [lost] · gate freeze -> frozen|waits
  bool gate(const Words& w) {
    if (w[0] != "gate") return false;
    static const char* kVerdicts[] = {"apply", "already", "busy", "denied", "frozen"};
    std::string got = "ok";
    if (w[1] == "new") gate_.emplace(static_cast<std::uint64_t>(number(w[3])), 8);
    if (w[1] == "write") got = kVerdicts[static_cast<int>(gate_->begin(tag(w[2], w[4])))];
    if (w[1] == "end") gate_->end(tag(w[2], "0"), w.size() < 4);
    if (w[1] == "freeze") got = gate_->freeze(static_cast<std::uint64_t>(number(w[3]))) ? "frozen" : "waits";
    if (w[1] == "state") got = gate_->state() == ms::GateState::frozen ? "frozen" : "open";
    if (got != expected_) fail("it is " + got);
    return true;
  }
  static ms::WriteTag tag(const std::string& text, const std::string& token) {
    const auto dot = text.find('.');
    return {{MemberNo{static_cast<std::uint16_t>(number(text.substr(0, dot)))}, Life{1}},
            RequestNo{static_cast<std::uint64_t>(number(text.substr(dot + 1)))},
            static_cast<std::uint64_t>(number(token))};
  }

  // once home LIFE · once ask NO by LIFE to HOMELIFE -> execute|in-progress|answered|unknown|refused · once finish NO
  // by LIFE
  bool once(const Words& w) {
    if (w[0] != "once") return false;
    static const char* kVerdicts[] = {"execute", "in-progress", "answered", "unknown", "refused"};
    const auto num = [&](std::size_t i) { return static_cast<std::uint64_t>(number(w[i])); };
    std::string got = "ok";
    if (w[1] == "home") cache_.emplace(Life{num(2)}, 8);
    if (w[1] == "ask")
      got = kVerdicts[static_cast<int>(
          cache_->begin({{MemberNo{2}, Life{num(4)}}, RequestNo{num(2)}, RequestNo{0}, Life{num(6)}}))];
    if (w[1] == "finish") cache_->finish({MemberNo{2}, Life{num(4)}}, RequestNo{num(2)}, {std::byte{1}});
    if (got != expected_) fail("it is " + got);
    return true;
  }

  World world_;
  std::string line_, expected_, why_;
  std::map<std::string, SegmentId> ids_;
  std::optional<ms::WriteGate> gate_;
  std::optional<ms::ReplyCache> cache_;
};

}  // namespace

ScenarioResult run_scenario(const std::string& path, bool trace) {
  ScenarioResult result;
  std::ifstream file(path);
  if (!file) return {"cannot open " + path, 0};
  Runner runner(trace);
  for (std::string line; std::getline(file, line) && runner.why().empty();) {
    std::stringstream in(line.substr(0, line.find('#')));
    Words words;
    for (std::string word; in >> word;) words.push_back(word);
    if (words.empty()) continue;
    if (words[0] == "bug") {
      result.bug = std::atoi(words[1].c_str());
    } else {
      runner.run(line, words);
    }
  }
  result.why = runner.why();
  return result;
}

}  // namespace vrampool::sim
