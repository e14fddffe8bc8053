// vrampool doctor: what is wrong on this machine, and how to mend it. Works without a daemon.
#include <fmt/format.h>

#include <algorithm>

#include "cli/checks/checks.h"
#include "cli/daemon.h"
#include "cli/verbs/verbs.h"

namespace vrampool::cli {
namespace {

constexpr std::uint16_t kControlPort = 7420, kDataPort = 7421;

void add(Findings& to, Findings more) { std::move(more.begin(), more.end(), std::back_inserter(to)); }

// The daemon's own list of what is wrong, and whether its peers can be reached from here.
Findings pool_findings(const json::value& status) {
  Findings out;
  for (const json::value& h : list_of(status, "health")) {
    const bool bad = text_of(h, "severity") == "error";
    out.push_back({"daemon", bad ? Verdict::problem : Verdict::note, text_of(h, "what"), text_of(h, "fix", "")});
  }
  if (out.empty()) out.push_back(good("daemon", "answers, and knows of nothing wrong"));
  for (const json::value& n : list_of(status, "nodes")) {
    if (!truth_of(n, "self")) out.push_back(peer_finding(text_of(n, "name"), text_of(n, "address", "")));
  }
  return out;
}

Findings daemon_findings(const Invocation& in, std::string& memory_dir) {
  auto status = ask(in, "status");
  if (status) {
    memory_dir = text_of(at(*status, "node"), "memory_dir", memory_dir);
    return pool_findings(*status);
  }
  return {problem("daemon", status.error().message, "start vrampoold"), port_finding("control port", kControlPort),
          port_finding("data port", kDataPort)};
}

const char* word(Verdict v) { return v == Verdict::good ? "good" : v == Verdict::note ? "note" : "problem"; }

void print_text(const Invocation& in, const Findings& all, std::size_t problems) {
  for (const Finding& f : all) {
    const Ink colour = f.verdict == Verdict::good ? Ink::green : f.verdict == Verdict::note ? Ink::yellow : Ink::red;
    fmt::print("{}{:{}}{:<16}{}\n", ink(in, colour, word(f.verdict)), "", 9 - std::string_view(word(f.verdict)).size(),
               f.what, f.found);
    if (!f.fix.empty()) fmt::print("{:25}-> {}\n", "", f.fix);
  }
  fmt::print("\n{}\n", problems == 0 ? std::string("nothing is wrong") : plural(problems, "problem"));
}

void print_document(const Findings& all, std::size_t problems) {
  json::object doc = document("doctor");
  json::array list;
  for (const Finding& f : all) {
    list.push_back(json::object{{"check", f.what}, {"verdict", word(f.verdict)}, {"found", f.found}, {"fix", f.fix}});
  }
  doc["problems"] = problems;
  doc["findings"] = std::move(list);
  print_json(doc);
}

}  // namespace

Result<int> run_doctor(const Invocation& in) {
  std::string memory_dir = "/dev/shm";
  const Findings daemon = daemon_findings(in, memory_dir);
  Findings all = system_findings(memory_dir);
  add(all, common_findings());
  add(all, daemon);
  const auto problems = static_cast<std::size_t>(
      std::count_if(all.begin(), all.end(), [](const Finding& f) { return f.verdict == Verdict::problem; }));
  if (in.json) {
    print_document(all, problems);
  } else {
    print_text(in, all, problems);
  }
  return problems == 0 ? kFine : kFailed;
}

}  // namespace vrampool::cli
