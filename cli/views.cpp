#include "cli/views.h"

#include <fmt/format.h>

#include "base/text.h"

namespace vrampool::cli {

std::string joined(const json::array& texts) {
  std::string out;
  for (const json::value& v : texts) {
    out += (out.empty() ? "" : ", ") + (v.is_string() ? std::string(v.get_string()) : std::string("?"));
  }
  return out.empty() ? "-" : out;
}

void print_health(const Invocation& in, const json::array& health) {
  if (health.empty()) {
    fmt::print("health    {}\n", ink(in, Ink::green, "good"));
    return;
  }
  for (const json::value& h : health) {
    const bool bad = text_of(h, "severity") == "error";
    fmt::print("{}   {}\n", ink(in, bad ? Ink::red : Ink::yellow, bad ? "problem" : "warning"), text_of(h, "what"));
    if (const std::string fix = text_of(h, "fix", ""); !fix.empty()) fmt::print("          {}\n", fix);
  }
}

void print_nodes(const Invocation& in, const json::array& nodes) {
  Table table({"NODE", ">NO", "STATE", "ROLE", ">CAPACITY", ">USED", "ADDRESS"});
  for (const json::value& n : nodes) {
    const std::string role = truth_of(n, "coordinator") ? "coordinator" : "member";
    table.row({text_of(n, "name") + (truth_of(n, "self") ? " *" : ""), text_of(n, "member"), text_of(n, "state"), role,
               bytes_of(n, "capacity_bytes"), bytes_of(n, "used_bytes"), text_of(n, "address")});
  }
  table.print(in);
}

void print_segments(const Invocation& in, const json::array& segments) {
  Table table({"NAME", "STATE", ">SIZE", ">TENSORS", "FORMAT", "NODES", ">AGE"});
  for (const json::value& s : segments) {
    const std::uint64_t lost = number_of(s, "lost_bytes");
    const std::string state = lost > 0 ? fmt::format("{} lost", format_bytes(lost)) : text_of(s, "state");
    table.row({text_of(s, "name"), state, bytes_of(s, "bytes"), text_of(s, "tensors"), text_of(s, "format"),
               joined(list_of(s, "nodes")), age_text(number_of(s, "created_unix_ms"))});
  }
  table.print(in);
}

void print_jobs(const Invocation& in, const json::array& jobs) {
  Table table({">JOB", "KIND", "NAME", "STATE", ">DONE", ">OF", "MESSAGE"});
  for (const json::value& j : jobs) {
    table.row({text_of(j, "job"), text_of(j, "kind"), text_of(j, "name"), text_of(j, "state"),
               bytes_of(j, "done_bytes"), bytes_of(j, "total_bytes"), text_of(j, "message", "")});
  }
  table.print(in);
}

}  // namespace vrampool::cli
