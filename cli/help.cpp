// --help: examples first, then what can be given.
#include "cli/help.h"

#include <fmt/format.h>

#include <algorithm>

namespace vrampool::cli {
namespace {

constexpr std::size_t kColumns = 100;

// Breaks lines at blanks so that none is longer than kColumns.
std::string wrapped(std::string_view text) {
  std::string out;
  std::size_t line = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of(" \n", at), text.size());
    const std::string_view word = text.substr(at, end - at);
    if (line != 0 && line + word.size() > kColumns) {
      out.back() = '\n';
      line = 0;
    }
    out += word;
    line += word.size() + 1;
    if (end == text.size()) break;
    out += text[end];
    if (text[end] == '\n') line = 0;
    at = end + 1;
  }
  return out;
}

constexpr std::size_t kNameWidth = 24;

std::string usage(const Command& c) {
  std::string line = fmt::format("vrampool {}", c.path);
  for (const Argument& a : c.arguments) {
    const std::string name = fmt::format("{}{}", a.name, a.many ? "..." : "");
    line += a.required ? " " + name : fmt::format(" [{}]", name);
  }
  return line + (c.options.empty() ? "" : " [options]");
}

void entry(std::string& out, const std::string& name, std::string_view text) {
  if (name.size() + 2 > kNameWidth) {
    out += fmt::format("  {}\n  {:{}}{}\n", name, "", kNameWidth, text);
  } else {
    out += fmt::format("  {:<{}}{}\n", name, kNameWidth, text);
  }
}

std::string option_name(const Option& o) {
  return o.value.empty() ? std::string(o.name) : fmt::format("{} {}", o.name, o.value);
}

}  // namespace

std::string help_text(const Command& c) {
  std::string out = fmt::format("{}\n\nusage: {}\n", c.summary, usage(c));
  if (!c.examples.empty()) out += "\nexamples:\n";
  for (const Example& e : c.examples) out += fmt::format("  {}\n      {}\n", e.line, e.text);
  if (!c.description.empty()) out += fmt::format("\n{}\n", wrapped(c.description));
  if (!c.arguments.empty()) out += "\narguments:\n";
  for (const Argument& a : c.arguments) entry(out, std::string(a.name), a.help);
  out += "\noptions:\n";
  for (const Option& o : c.options) entry(out, option_name(o), o.help);
  for (const Option& o : common_options()) entry(out, option_name(o), o.help);
  return out;
}

std::string help_overview() {
  std::string out =
      "vrampool: one pool out of the memory of several machines\n\nusage: vrampool <command> [options]\n\n";
  std::string group;
  for (const Command& c : commands()) {
    const std::string_view head = c.path.substr(0, c.path.find(' '));
    if (head == c.path) {
      entry(out, std::string(c.path), c.summary);
    } else if (head != group) {
      group = head;
      entry(out, group + " ...", fmt::format("see vrampool {} --help", head));
    }
  }
  return out +
         "\nvrampool <command> --help says more about each; vrampool doctor finds what is wrong.\n"
         "exit status: 0 fine, 1 failed, 2 wrong usage, 3 no daemon reached\n";
}

std::string help_group(std::string_view word) {
  std::string out = fmt::format("usage: vrampool {} <command> [options]\n\n", word);
  for (const Command& c : commands()) {
    if (c.path.starts_with(fmt::format("{} ", word))) entry(out, std::string(c.path), c.summary);
  }
  return out;
}

}  // namespace vrampool::cli
