// Man pages in man(7) macros.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "cli/help.h"
#include "cli/version.h"

namespace vrampool::cli {
namespace {

// A line that starts with '.' or '\'' would be a request; '-' must not become a typographic hyphen.
std::string escaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool starts_line = i == 0 || text[i - 1] == '\n';
    if (starts_line && (text[i] == '.' || text[i] == '\'')) out += "\\&";
    if (text[i] == '-') {
      out += "\\-";
    } else if (text[i] == '\\') {
      out += "\\e";
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string page_name(std::string_view path) {
  std::string name = fmt::format("vrampool-{}", path);
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

std::string heading(const std::string& name) {
  std::string upper = name;
  std::transform(upper.begin(), upper.end(), upper.begin(), [](unsigned char ch) { return std::toupper(ch); });
  return fmt::format(".TH {} 1 \"\" \"vrampool {}\" \"vrampool\"\n", escaped(upper), kVersion);
}

std::string entry(std::string_view name, std::string_view value, std::string_view text) {
  const std::string shown = value.empty() ? std::string() : fmt::format(" \\fI{}\\fR", escaped(value));
  return fmt::format(".TP\n\\fB{}\\fR{}\n{}\n", escaped(name), shown, escaped(text));
}

std::string synopsis(const Command& c) {
  std::string out = fmt::format("\\fBvrampool {}\\fR", escaped(c.path));
  for (const Argument& a : c.arguments) {
    const std::string name = fmt::format("\\fI{}\\fR{}", escaped(a.name), a.many ? "..." : "");
    out += a.required ? " " + name : fmt::format(" [{}]", name);
  }
  return out + " [options]\n";
}

constexpr const char* kExitStatus =
    ".SH EXIT STATUS\n0 fine, 1 failed, 2 wrong usage, 3 no daemon reached.\n"
    ".SH ENVIRONMENT\n.TP\n\\fBVRAMPOOL_SOCKET\\fR\nThe daemon's socket, when \\-\\-socket is not given.\n"
    ".TP\n\\fBNO_COLOR\\fR\nSet to anything: no colour.\n";

}  // namespace

std::string man_page(const Command& c) {
  const std::string name = page_name(c.path);
  std::string out = heading(name);
  out += fmt::format(".SH NAME\n{} \\- {}\n.SH SYNOPSIS\n{}", escaped(name), escaped(c.summary), synopsis(c));
  if (!c.description.empty()) out += fmt::format(".SH DESCRIPTION\n{}\n", escaped(c.description));
  if (!c.arguments.empty()) out += ".SH ARGUMENTS\n";
  for (const Argument& a : c.arguments) out += entry(a.name, {}, a.help);
  out += ".SH OPTIONS\n";
  for (const Option& o : c.options) out += entry(o.name, o.value, o.help);
  for (const Option& o : common_options()) out += entry(o.name, o.value, o.help);
  if (!c.examples.empty()) out += ".SH EXAMPLES\n";
  for (const Example& e : c.examples) out += fmt::format(".TP\n\\fB{}\\fR\n{}\n", escaped(e.line), escaped(e.text));
  return out + kExitStatus + ".SH SEE ALSO\n\\fBvrampool\\fR(1)\n";
}

std::string man_overview() {
  std::string out = heading("vrampool") +
                    ".SH NAME\nvrampool \\- one pool out of the memory of several machines\n"
                    ".SH SYNOPSIS\n\\fBvrampool\\fR \\fIcommand\\fR [options]\n.SH DESCRIPTION\n"
                    "Shows and steers the pool that the vrampoold daemons of several machines make of the memory that "
                    "they donate.\n.SH COMMANDS\n";
  for (const Command& c : commands()) out += entry(c.path, {}, c.summary);
  out += ".SH OPTIONS\n";
  for (const Option& o : common_options()) out += entry(o.name, o.value, o.help);
  return out + kExitStatus;
}

}  // namespace vrampool::cli
