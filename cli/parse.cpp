// Builds CLI11's options out of the table of commands; the only file that sees CLI11.
#include "cli/parse.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <deque>

#include "base/text.h"
#include "cli/help.h"
#include "cli/print.h"

namespace vrampool::cli {
namespace {

// Where CLI11 puts what it reads. A deque keeps addresses while it grows.
struct Slots {
  std::deque<std::pair<std::string_view, std::vector<std::string>>> values;
  std::deque<std::pair<std::string_view, bool>> flags;
};

std::string check_choice(std::string_view choices, const std::string& given) {
  std::string_view rest = choices;
  while (!rest.empty()) {
    const std::size_t bar = std::min(rest.find('|'), rest.size());
    if (rest.substr(0, bar) == given) return {};
    rest.remove_prefix(std::min(bar + 1, rest.size()));
  }
  return fmt::format("\"{}\" is none of {}", given, choices);
}

std::string check_value(Kind kind, std::string_view choices, const std::string& given) {
  switch (kind) {
    case Kind::bytes: {
      const auto bytes = parse_bytes(given);
      return bytes ? std::string() : bytes.error().message;
    }
    case Kind::count: {
      const bool digits = !given.empty() && given.size() < 19 && std::all_of(given.begin(), given.end(), ::isdigit);
      return digits ? std::string() : fmt::format("\"{}\" is no number", given);
    }
    case Kind::choice:
      return check_choice(choices, given);
    default:
      return {};
  }
}

void add_option(CLI::App& app, const Option& o, Slots& slots) {
  if (o.kind == Kind::flag) {
    auto& slot = slots.flags.emplace_back(o.name, false);
    app.add_flag(std::string(o.name), slot.second);
    return;
  }
  auto& slot = slots.values.emplace_back(o.name, std::vector<std::string>{});
  app.add_option(std::string(o.name), slot.second)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false)  // given again for each value; else it swallows the arguments that follow
      ->check([kind = o.kind, choices = o.choices](const std::string& v) { return check_value(kind, choices, v); });
}

void add_argument(CLI::App& app, const Argument& a, Slots& slots) {
  auto& slot = slots.values.emplace_back(a.name, std::vector<std::string>{});
  auto* option = app.add_option(std::string(a.name), slot.second)->check([kind = a.kind](const std::string& v) {
    return check_value(kind, {}, v);
  });
  option->required(a.required);
  option->expected(a.required ? 1 : 0, a.many ? 1 << 20 : 1);
  option->allow_extra_args(a.many);
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
    }
  }
  return row.back();
}

std::string nearest(std::string_view word, std::string_view group) {
  std::string best;
  std::size_t distance = 3;
  for (const Command& c : commands()) {
    std::string_view name = c.path;
    if (!group.empty() && !name.starts_with(group)) continue;
    name = group.empty() ? name.substr(0, name.find(' ')) : name.substr(group.size());
    const std::size_t d = edit_distance(word, name);
    if (d < distance) distance = d, best = name;
  }
  return best;
}

Parsed leave(std::string text, int code) {
  Parsed p;
  p.text = std::move(text);
  p.exit_code = code;
  return p;
}

Parsed unknown(std::string_view word, std::string_view group) {
  const std::string guess = nearest(word, group);
  const std::string hint = guess.empty() ? std::string() : fmt::format("; did you mean {}{}?", group, guess);
  return leave(fmt::format("vrampool: there is no command {}{}{} (see vrampool --help)\n", group, word, hint), kUsage);
}

bool is_group(std::string_view word) {
  const auto all = commands();
  return std::any_of(all.begin(), all.end(),
                     [&](const Command& c) { return c.path.starts_with(fmt::format("{} ", word)); });
}

// CLI11's text with our prefix; its own says "X is required" with and without dashes as the table does.
Parsed usage_error(const Command& c, const CLI::ParseError& failure) {
  std::string what = failure.what();
  if (what.ends_with('\n')) what.pop_back();
  return leave(fmt::format("vrampool {}: {} (see vrampool {} --help)\n", c.path, what, c.path), kUsage);
}

Parsed parse_command(const Command& c, std::vector<std::string> words) {
  CLI::App app;
  app.set_help_flag();
  Slots slots;
  for (const Option& o : common_options()) add_option(app, o, slots);
  for (const Option& o : c.options) add_option(app, o, slots);
  for (const Argument& a : c.arguments) add_argument(app, a, slots);
  const auto asks = [&](std::string_view flag) { return std::find(words.begin(), words.end(), flag) != words.end(); };
  if (asks("--help") || asks("-h")) return leave(help_text(c), kFine);
  if (asks("--man")) return leave(man_page(c), kFine);
  try {
    std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
    app.parse(std::move(words));
  } catch (const CLI::ParseError& failure) {
    return usage_error(c, failure);
  }
  Parsed p;
  p.command = &c;
  for (auto& [name, given] : slots.flags) {
    if (given) p.invocation.put(name, {});
  }
  for (auto& [name, given] : slots.values) {
    if (!given.empty()) p.invocation.put(name, std::move(given));
  }
  p.invocation.json = p.invocation.has("--json");
  p.invocation.socket = p.invocation.text("--socket");
  p.invocation.colour = !p.invocation.json && colour_wanted(p.invocation.has("--no-color"));
  return p;
}

}  // namespace

std::string Invocation::text(std::string_view name, std::string_view otherwise) const {
  const auto found = values_.find(name);
  return found == values_.end() || found->second.empty() ? std::string(otherwise) : found->second.back();
}

std::uint64_t Invocation::count(std::string_view name, std::uint64_t otherwise) const {
  return has(name) ? std::stoull(text(name)) : otherwise;
}

std::uint64_t Invocation::bytes(std::string_view name, std::uint64_t otherwise) const {
  return has(name) ? *parse_bytes(text(name)) : otherwise;
}

std::vector<std::string> Invocation::all(std::string_view name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::vector<std::string>{} : found->second;
}

Parsed parse(int argc, const char* const* argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  // The common options may stand before the verb.
  std::vector<std::string> before;
  while (!words.empty() && words.front().starts_with('-')) {
    const bool takes_value = words.front() == "--socket" && words.size() > 1;
    for (int i = 0; i < (takes_value ? 2 : 1); ++i) before.push_back(words.front()), words.erase(words.begin());
  }
  const auto asked = [&](std::string_view flag) {
    return std::find(before.begin(), before.end(), flag) != before.end();
  };
  if (words.empty()) {
    if (asked("--man")) return leave(man_overview(), kFine);
    if (asked("--version")) return parse_command(*find_command("version"), {});
    return leave(help_overview(), asked("--help") || asked("-h") ? kFine : kUsage);
  }
  std::string verb = words.front();
  words.erase(words.begin());
  if (is_group(verb)) {
    if (words.empty() || words.front() == "--help" || words.front() == "-h") {
      return leave(help_group(verb), words.empty() ? kUsage : kFine);
    }
    if (find_command(verb + " " + words.front()) == nullptr) return unknown(words.front(), verb + " ");
    verb += " " + words.front();
    words.erase(words.begin());
  }
  const Command* c = find_command(verb);
  if (c == nullptr) return unknown(verb, {});
  words.insert(words.begin(), before.begin(), before.end());
  return parse_command(*c, std::move(words));
}

}  // namespace vrampool::cli
