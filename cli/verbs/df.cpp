// vrampool df: how full the nodes are.
#include <fmt/format.h>

#include "base/text.h"
#include "cli/daemon.h"
#include "cli/verbs/verbs.h"

namespace vrampool::cli {
namespace {

std::string share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? "-" : fmt::format("{} %", (part * 100 + whole / 2) / whole);
}

void add(Table& table, const std::string& name, std::uint64_t capacity, std::uint64_t used) {
  table.row({name, format_bytes(capacity), format_bytes(used), format_bytes(capacity > used ? capacity - used : 0),
             share(used, capacity)});
}

}  // namespace

Result<int> run_df(const Invocation& in) {
  VP_TRY(doc, ask(in, "df"));
  if (in.json) {
    print_json(doc);
    return kFine;
  }
  Table table({"NODE", ">CAPACITY", ">USED", ">FREE", ">USE"});
  std::uint64_t capacity = 0, used = 0;
  for (const json::value& node : list_of(doc, "nodes")) {
    if (text_of(node, "state", "alive") != "alive") continue;
    add(table, text_of(node, "name"), number_of(node, "capacity_bytes"), number_of(node, "used_bytes"));
    capacity += number_of(node, "capacity_bytes");
    used += number_of(node, "used_bytes");
  }
  add(table, "total", capacity, used);
  table.print(in);
  return kFine;
}

}  // namespace vrampool::cli
