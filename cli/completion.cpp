// Completion scripts for bash, zsh and fish. Names of segments and nodes are asked from the daemon when needed.
#include <fmt/format.h>

#include <set>

#include "cli/help.h"

namespace vrampool::cli {
namespace {

constexpr const char* kSegments = "$(vrampool ls --names 2>/dev/null)";
constexpr const char* kNodes = "$(vrampool nodes --names 2>/dev/null)";

// "status nodes ls ... bench": the first words.
std::string first_words() {
  std::string out;
  std::set<std::string_view> seen;
  for (const Command& c : commands()) {
    const std::string_view word = c.path.substr(0, c.path.find(' '));
    if (seen.insert(word).second) out += fmt::format("{}{}", out.empty() ? "" : " ", word);
  }
  return out;
}

std::string second_words(std::string_view group) {
  std::string out;
  for (const Command& c : commands()) {
    if (c.path.starts_with(fmt::format("{} ", group))) out += fmt::format("{} ", c.path.substr(group.size() + 1));
  }
  return out;
}

std::string option_words(const Command& c) {
  std::string out;
  for (const Option& o : c.options) out += fmt::format("{} ", o.name);
  for (const Option& o : common_options()) out += fmt::format("{} ", o.name);
  return out;
}

// What the shell offers for a value; "@files" stands for file names.
std::string candidates(Kind kind, std::string_view choices) {
  std::string bars(choices);
  for (char& ch : bars) ch = ch == '|' ? ' ' : ch;
  switch (kind) {
    case Kind::segment:
      return kSegments;
    case Kind::node:
      return kNodes;
    case Kind::file:
      return "@files";
    case Kind::choice:
      return bars;
    default:
      return {};
  }
}

std::string bash_reply(const std::string& words) {
  if (words == "@files") return "COMPREPLY=($(compgen -f -- \"$cur\")); compopt -o filenames 2>/dev/null";
  return fmt::format("COMPREPLY=($(compgen -W \"{}\" -- \"$cur\"))", words);
}

std::string bash_command(const Command& c) {
  std::string out = fmt::format("    '{}')\n      case \"$prev\" in\n", c.path);
  for (const Option& o : c.options) {
    const std::string words = candidates(o.kind, o.choices);
    if (!words.empty()) out += fmt::format("        {}) {}; return ;;\n", o.name, bash_reply(words));
  }
  out += "        --socket) COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n      esac\n";
  const std::string words = c.arguments.empty() ? std::string() : candidates(c.arguments[0].kind, "bash|zsh|fish");
  if (words.empty()) return out + fmt::format("      {} ;;\n", bash_reply(option_words(c)));
  return out + fmt::format("      if [[ $cur == -* ]]; then {}; else {}; fi ;;\n", bash_reply(option_words(c)),
                           bash_reply(words));
}

std::string bash_script() {
  std::string out =
      "# bash completion for vrampool: source it, or install it in share/bash-completion/completions/vrampool.\n"
      "_vrampool() {\n  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} verb=${COMP_WORDS[1]}\n"
      "  COMPREPLY=()\n";
  out += fmt::format("  if [ \"$COMP_CWORD\" = 1 ]; then {}; return; fi\n", bash_reply(first_words()));
  out += "  if [ \"$verb\" = bench ]; then\n";
  out += fmt::format("    if [ \"$COMP_CWORD\" = 2 ]; then {}; return; fi\n", bash_reply(second_words("bench")));
  out += "    verb=\"bench ${COMP_WORDS[2]}\"\n  fi\n  case \"$verb\" in\n";
  for (const Command& c : commands()) out += bash_command(c);
  return out + "  esac\n}\ncomplete -F _vrampool vrampool\n";
}

std::string zsh_script() {
  // zsh reads bash completions; one description of the commands is enough.
  return "#compdef vrampool\n# zsh completion for vrampool: install it as _vrampool in a directory of $fpath.\n"
         "autoload -U +X bashcompinit && bashcompinit\n" +
         bash_script();
}

std::string fish_quoted(std::string_view text) {
  std::string out;
  for (const char ch : text) out += ch == '\'' ? std::string("\\'") : std::string(1, ch);
  return out;
}

std::string fish_value(Kind kind, std::string_view choices) {
  switch (kind) {
    case Kind::file:
      return " -r -F";
    case Kind::segment:
      return " -x -a '(vrampool ls --names 2>/dev/null)'";
    case Kind::node:
      return " -x -a '(vrampool nodes --names 2>/dev/null)'";
    case Kind::choice:
      return fmt::format(" -x -a '{}'", candidates(kind, choices));
    default:
      return " -x";
  }
}

std::string fish_command(const Command& c) {
  const std::size_t space = c.path.find(' ');
  const std::string_view word = c.path.substr(0, space);
  std::string inside = fmt::format("__fish_seen_subcommand_from {}", word);
  std::string out;
  if (space == std::string_view::npos) {
    out = fmt::format("complete -c vrampool -n __fish_use_subcommand -a {} -d '{}'\n", word, fish_quoted(c.summary));
  } else {
    const std::string_view second = c.path.substr(space + 1);
    out = fmt::format("complete -c vrampool -n '{}' -a {} -d '{}'\n", inside, second, fish_quoted(c.summary));
    inside += fmt::format("; and __fish_seen_subcommand_from {}", second);
  }
  for (const Option& o : c.options) {
    const std::string value = o.kind == Kind::flag ? std::string() : fish_value(o.kind, o.choices);
    out += fmt::format("complete -c vrampool -n '{}' -l {}{} -d '{}'\n", inside, o.name.substr(2), value,
                       fish_quoted(o.help));
  }
  if (!c.arguments.empty()) {
    out += fmt::format("complete -c vrampool -n '{}'{}\n", inside, fish_value(c.arguments[0].kind, "bash|zsh|fish"));
  }
  return out;
}

std::string fish_script() {
  std::string out =
      "# fish completion for vrampool: install it in share/fish/vendor_completions.d/vrampool.fish.\n"
      "complete -c vrampool -f\ncomplete -c vrampool -n __fish_use_subcommand -a bench -d 'measurements'\n";
  for (const Command& c : commands()) out += fish_command(c);
  for (const Option& o : common_options()) {
    out += fmt::format("complete -c vrampool -l {} -d '{}'{}\n", o.name.substr(2), fish_quoted(o.help),
                       o.kind == Kind::flag ? "" : " -r");
  }
  return out;
}

}  // namespace

Result<std::string> completion_script(std::string_view shell) {
  if (shell == "bash") return bash_script();
  if (shell == "zsh") return zsh_script();
  if (shell == "fish") return fish_script();
  return error(VP_INVALID, "no completion for \"{}\": bash, zsh or fish", shell);
}

}  // namespace vrampool::cli
