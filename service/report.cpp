// Reports on this node, its pool and its members.
#include "service/report.h"

#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>

#include "base/text.h"
#include "platform/clock.h"
#include "platform/pressure.h"
#include "wire/status_board.h"

#ifndef VP_VERSION
#define VP_VERSION "0"
#endif

namespace vrampool::service {

namespace json = boost::json;

namespace {

std::string coordinator_name(const Node& node) {
  const auto who = node.machine().coordinator(platform::now());
  return who ? const_cast<Node&>(node).members().name_of(*who) : "";
}

std::string error_line(const JobView& j) { return j.failure.code == VP_OK ? "" : j.failure.message; }

}  // namespace

json::object document(const char* verb) {
  return json::object{{"schema", std::string("vrampool.") + verb}, {"version", 1}};
}

std::string text_of(const json::object& o) { return json::serialize(o); }

json::object parse_status(const std::string& text) {
  json::error_code failure;
  const json::value v = json::parse(text, failure);
  return !failure && v.is_object() ? v.get_object() : json::object{};
}

json::object node_report(const Scene& s) {
  json::object o{{"name", s.config.node_name},
                 {"member", s.node ? s.node->self().member.value : 0},
                 {"life", s.birth.life.value},
                 {"version", VP_VERSION},
                 {"pid", ::getpid()},
                 {"uptime_ms", platform::unix_ms() - s.started_unix_ms},
                 {"memory_dir", s.config.memory_dir},
                 {"data_tls", s.config.data_tls},
                 {"capacity_bytes", s.config.capacity_bytes},
                 {"clients", s.sessions.all().size()},
                 {"control_port", s.node ? s.node->peers().port() : 0}};
  if (!s.node) return o;
  const Figures f = s.node->data().figures();
  const allocator::PieceAccounts& books = s.node->pieces().accounts();
  o["capacity_bytes"] = books.capacity_bytes();
  o["used_bytes"] = books.used_bytes() + books.reserved_bytes();
  o["missing_bytes"] = s.node->pieces().missing_bytes();
  o["data_port"] = s.node->data().data_port();
  o["fault_source"] = s.node->data().fault_source();
  o["cache_bytes"] = f.cache_bytes;
  o["cache_limit_bytes"] = s.config.cache_bytes;
  o["views"] = f.views;
  o["pieces"] = f.pieces;
  o["faults"] = f.faults;
  o["pages_fetched"] = f.pages_fetched;
  o["pages_served"] = f.pages_served;
  o["bytes_in"] = f.bytes_in;
  o["bytes_out"] = f.bytes_out;
  o["crc_errors"] = f.crc_errors;
  o["retries"] = f.retries;
  o["poisoned_pages"] = f.poisoned_pages;
  o["evicted_pages"] = f.evicted_pages;
  o["fault_p50_ns"] = f.fault_p50_ns;
  o["fault_p99_ns"] = f.fault_p99_ns;
  return o;
}

json::object pool_report(const Scene& s) {
  if (!s.node)
    return json::object{
        {"id", ""}, {"state", s.joining ? "joining" : "none"}, {"coordinator", ""}, {"can_change", false}};
  const membership::Machine& m = s.node->machine();
  const Instant now = platform::now();
  return json::object{{"id", to_text(m.pool())},
                      {"state", "member"},
                      {"coordinator", coordinator_name(*s.node)},
                      {"term", m.term().count},
                      {"epoch", to_text(m.epoch())},
                      {"recovering", m.is_recovering()},
                      {"can_change", m.coordinator(now).has_value() && !m.is_recovering()}};
}

json::array nodes_report(const Scene& s, const Heard& heard) {
  json::array out;
  if (!s.node) return out;
  const membership::Machine& m = s.node->machine();
  const auto leader = m.coordinator(platform::now());
  for (const auto& entry : m.roster().entries) {
    const MemberNo member{entry->member};
    json::object o{{"name", entry->name},
                   {"member", entry->member},
                   {"life", 0},
                   {"state", entry->forgotten ? "forgotten" : "dead"},
                   {"coordinator", leader && *leader == member},
                   {"self", member == s.node->self().member},
                   {"address", entry->addresses.empty() ? "" : entry->addresses.front()},
                   {"capacity_bytes", 0},
                   {"used_bytes", 0},
                   {"version", ""}};
    for (const auto& v : m.view().members) {
      if (v->member != entry->member) continue;
      o["life"] = v->life;
      if (v->state == wire::MemberState::alive) o["state"] = "alive";
    }
    if (const auto at = heard.find(member); at != heard.end())
      for (const char* key : {"capacity_bytes", "used_bytes", "version", "missing_bytes"})
        if (const auto* value = at->second.if_contains(key)) o[key] = *value;
    if (const std::string trouble = s.node->peers().trouble(member); !trouble.empty()) o["trouble"] = trouble;
    out.push_back(std::move(o));
  }
  return out;
}

json::object job_report(const JobView& j) {
  json::object o{{"job", j.id},
                 {"kind", j.kind},
                 {"name", j.name},
                 {"principal", j.principal},
                 {"state", to_text(j.state)},
                 {"done_bytes", j.done_bytes},
                 {"total_bytes", j.total_bytes},
                 {"bytes_per_second", static_cast<std::uint64_t>(j.bytes_per_second)},
                 {"started_unix_ms", j.started_unix_ms},
                 {"message", error_line(j)},
                 {"status", static_cast<int>(j.failure.code)}};
  if (j.seconds_left >= 0) o["seconds_left"] = j.seconds_left;
  return o;
}

json::array jobs_report(const Scene& s) {
  json::array out;
  if (s.node)
    for (const JobView& j : s.node->jobs().all()) out.push_back(job_report(j));
  return out;
}

std::string board_report(const Scene& s) {
  json::object o = document("board");
  o["node"] = node_report(s);
  o["pool"] = pool_report(s);
  o["jobs"] = jobs_report(s);
  std::string text = json::serialize(o);
  if (text.size() > wire::kBoardTextMax) {
    o.erase("jobs");
    text = json::serialize(o);
  }
  return text;
}

// ---- health: empty is good ----

json::array health_report(const Scene& s, const Heard& heard) {
  json::array out;
  const auto say = [&](const char* severity, std::string what, std::string fix) {
    out.push_back(json::object{{"severity", severity}, {"what", what}, {"fix", fix}});
  };
  if (s.store.failing())
    say("error", "the registry cannot be written: the disk of " + s.store.directory() + " is full or broken",
        "make room there");
  const platform::Pressure pressure = platform::memory_pressure();
  if (pressure.level != platform::PressureLevel::normal)
    say("warning", fmt::format("this machine is short of memory: {} are left", format_bytes(pressure.available_bytes)),
        "donate less: `vrampool donate SIZE`");
  if (!s.node) return out;
  const membership::Machine& m = s.node->machine();
  if (!m.coordinator(platform::now())) {
    const auto since = m.silent_since(platform::now());
    const std::string when = since ? " for " + format_duration_ns((platform::now() - *since).ns) : "";
    say("error", "no coordinator" + when + ": what is sealed stays readable, nothing can be created or removed",
        "start its node, or run `vrampool promote` on another");
  } else if (m.is_recovering()) {
    say("warning", "the coordinator is taking over", "wait a moment");
  }
  for (const auto& v : m.view().members) {
    const MemberNo member{v->member};
    if (v->state == wire::MemberState::dead) {
      const std::string trouble = s.node->peers().trouble(member);
      say("error", s.node->members().name_of(member) + " is not alive" + (trouble.empty() ? "" : ": " + trouble),
          "start vrampoold there, or `vrampool forget " + s.node->members().name_of(member) + "`");
    }
  }
  for (const auto& [member, node] : heard) {
    const auto* missing = node.if_contains("missing_bytes");
    if (missing && missing->is_number() && missing->to_number<double>() > 0)
      say("error",
          fmt::format("{} has lost {} of sealed segments", s.node->members().name_of(member),
                      format_bytes(static_cast<std::uint64_t>(missing->to_number<double>()))),
          "`vrampool ls` shows which: remove them and import them again");
  }
  if (s.node->pieces().orphans() > 0)
    say("warning", fmt::format("{} pieces here belong to no segment", s.node->pieces().orphans()),
        "they are freed within an hour");
  if (const auto& books = s.node->pieces().accounts(); books.excess_bytes() > 0)
    say("warning", fmt::format("this node holds {} more than it donates", format_bytes(books.excess_bytes())),
        "remove segments, or donate more");
  return out;
}

}  // namespace vrampool::service
