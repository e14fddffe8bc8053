// The shape of a command: parsing, --help, man pages and completions all come from one table of these.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace vrampool::cli {

// What the shell and the scripts see.
enum Exit : int { kFine = 0, kFailed = 1, kUsage = 2, kNoDaemon = 3 };

enum class Kind { flag, text, bytes, count, file, segment, node, choice };

// "--nodes", value name "N" (empty for a flag), one line of help. `choices` are bar-separated for Kind::choice.
struct Option {
  std::string_view name;
  Kind kind = Kind::flag;
  std::string_view value;
  std::string_view help;
  std::string_view choices = {};
};

struct Argument {
  std::string_view name;
  Kind kind = Kind::text;
  std::string_view help;
  bool required = true;
  bool many = false;
};

struct Example {
  std::string_view line;
  std::string_view text;
};

// What was typed, checked against the command's table entry.
class Invocation {
 public:
  bool json = false;
  bool colour = false;
  std::string socket;  // empty: the usual places

  bool has(std::string_view name) const { return values_.find(name) != values_.end(); }
  std::string text(std::string_view name, std::string_view otherwise = {}) const;
  std::uint64_t count(std::string_view name, std::uint64_t otherwise) const;  // Kind::count
  std::uint64_t bytes(std::string_view name, std::uint64_t otherwise) const;  // Kind::bytes
  std::vector<std::string> all(std::string_view name) const;
  void put(std::string_view name, std::vector<std::string> values) { values_[std::string(name)] = std::move(values); }

 private:
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
};

// `path` is the verb, or two words for a group ("bench page-read"). `run` prints and returns an exit code.
struct Command {
  std::string_view path;
  std::string_view summary;
  std::string_view description;
  std::vector<Argument> arguments;
  std::vector<Option> options;
  std::vector<Example> examples;
  Result<int> (*run)(const Invocation&);
};

// Every command, most used first. Static storage.
std::span<const Command> commands();
// Options of every command: --json, --socket, --no-color, --help, --man.
std::span<const Option> common_options();
const Command* find_command(std::string_view path);

}  // namespace vrampool::cli
