// vrampool inspect: one segment, its tensors, files and pieces.
#include <fmt/format.h>

#include "base/text.h"
#include "cli/daemon.h"
#include "cli/verbs/verbs.h"
#include "cli/views.h"

namespace vrampool::cli {
namespace {

constexpr std::size_t kTensorsShown = 20;

std::string shape_text(const json::value& tensor) {
  std::string out;
  for (const json::value& d : list_of(tensor, "shape")) {
    out += (out.empty() ? "" : " x ") +
           std::to_string(d.is_uint64() ? d.get_uint64() : static_cast<std::uint64_t>(d.as_int64()));
  }
  return out.empty() ? "scalar" : out;
}

void print_head(const json::value& s) {
  fmt::print("{}  {}, {}, {}\n", text_of(s, "name"), text_of(s, "state"), bytes_of(s, "bytes"), text_of(s, "format"));
  fmt::print("  id {}, pool address {}, layout {}, owner {}, made {} ago\n", text_of(s, "id"), text_of(s, "address"),
             text_of(s, "layout"), text_of(s, "principal"), age_text(number_of(s, "created_unix_ms")));
  if (number_of(s, "lost_bytes") > 0) fmt::print("  {} are lost: their node is gone\n", bytes_of(s, "lost_bytes"));
}

void print_pieces(const Invocation& in, const json::array& pieces) {
  Table table({">PIECE", "NODE", ">OFFSET", ">SIZE", ">COPY", "STATE"});
  for (const json::value& p : pieces) {
    table.row({text_of(p, "ordinal"), text_of(p, "node"), text_of(p, "offset"), bytes_of(p, "bytes"),
               text_of(p, "copy"), text_of(p, "state")});
  }
  table.print(in);
}

void print_tensors(const Invocation& in, const json::array& tensors, bool all) {
  Table table({"TENSOR", "TYPE", "SHAPE", ">SIZE", "NODES"});
  for (const json::value& t : tensors) {
    if (!all && &t - tensors.data() >= static_cast<std::ptrdiff_t>(kTensorsShown)) break;
    table.row({text_of(t, "name"), text_of(t, "type_name"), shape_text(t), bytes_of(t, "bytes"),
               joined(list_of(t, "nodes"))});
  }
  table.print(in);
  if (!all && tensors.size() > kTensorsShown) {
    fmt::print("... and {} more; --all shows them\n", tensors.size() - kTensorsShown);
  }
}

}  // namespace

Result<int> run_inspect(const Invocation& in) {
  VP_TRY(doc, ask(in, "inspect", {in.text("name")}));
  if (in.json) {
    print_json(doc);
    return kFine;
  }
  const json::value& segment = at(doc, "segment");
  print_head(segment);
  fmt::print("\n");
  print_pieces(in, list_of(segment, "pieces"));
  for (const json::value& f : list_of(segment, "files")) {
    fmt::print("file {}, {}, from {}\n", text_of(f, "name"), bytes_of(f, "bytes"), text_of(f, "path"));
  }
  if (const json::array& tensors = list_of(segment, "tensors"); !tensors.empty()) {
    fmt::print("\n");
    print_tensors(in, tensors, in.has("--all"));
  }
  return kFine;
}

}  // namespace vrampool::cli
