#include "cli/print.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "base/text.h"

namespace vrampool::cli {
namespace {

constexpr std::size_t kGap = 2;
constexpr std::size_t kCutWidthMin = 12;

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

std::string cut(const std::string& cell, std::size_t width) {
  return cell.size() <= width ? cell : cell.substr(0, width - 3) + "...";
}

// Narrows the widest left-aligned column until the line fits.
void fit(std::vector<std::size_t>& widths, const std::vector<bool>& right) {
  for (;;) {
    std::size_t sum = kGap * (widths.size() - 1);
    for (const std::size_t w : widths) sum += w;
    if (sum <= kColumnsMax) return;
    std::size_t widest = widths.size();
    for (std::size_t i = 0; i < widths.size(); ++i) {
      if (!right[i] && widths[i] > kCutWidthMin && (widest == widths.size() || widths[i] > widths[widest])) widest = i;
    }
    if (widest == widths.size()) return;
    widths[widest] = std::max(kCutWidthMin, widths[widest] - std::min(widths[widest], sum - kColumnsMax));
  }
}

void indent(std::string& out, std::size_t depth) { out.append(depth * 2, ' '); }

void pretty(std::string& out, const json::value& v, std::size_t depth);

void pretty_array(std::string& out, const json::array& list, std::size_t depth) {
  const bool flat = std::none_of(list.begin(), list.end(), [](const json::value& v) { return v.is_structured(); });
  if (flat) {
    out += json::serialize(list);
    return;
  }
  out += "[\n";
  for (std::size_t i = 0; i < list.size(); ++i) {
    indent(out, depth + 1);
    pretty(out, list[i], depth + 1);
    out += i + 1 < list.size() ? ",\n" : "\n";
  }
  indent(out, depth);
  out += ']';
}

void pretty(std::string& out, const json::value& v, std::size_t depth) {
  if (v.is_array()) return pretty_array(out, v.get_array(), depth);
  if (!v.is_object() || v.get_object().empty()) {
    out += json::serialize(v);
    return;
  }
  out += "{\n";
  std::size_t left = v.get_object().size();
  for (const auto& member : v.get_object()) {
    indent(out, depth + 1);
    out += json::serialize(json::value(member.key())) + ": ";
    pretty(out, member.value(), depth + 1);
    out += --left > 0 ? ",\n" : "\n";
  }
  indent(out, depth);
  out += '}';
}

}  // namespace

bool colour_wanted(bool forbidden) {
  const char* term = std::getenv("TERM");
  return !forbidden && ::isatty(STDOUT_FILENO) == 1 && !is_set("NO_COLOR") &&
         !(term != nullptr && std::string_view(term) == "dumb");
}

std::string ink(const Invocation& in, Ink kind, std::string_view text) {
  static constexpr const char* kCodes[] = {"", "1", "2", "31", "33", "32"};
  if (!in.colour || kind == Ink::none) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", kCodes[static_cast<int>(kind)], text);
}

Table::Table(std::vector<std::string> columns) : columns_(std::move(columns)) {
  for (std::string& name : columns_) {
    right_.push_back(name.starts_with('>'));
    if (right_.back()) name.erase(0, 1);
  }
}

void Table::row(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::vector<std::string> Table::lines() const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t width = columns_[i].size();
    for (const auto& r : rows_) width = std::max(width, r[i].size());
    widths.push_back(width);
  }
  fit(widths, right_);
  std::vector<std::string> out;
  const auto add = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string cell = cut(cells[i], widths[i]);
      if (right_[i]) {
        line += fmt::format("{:>{}}", cell, widths[i]);
      } else {
        line += fmt::format("{:<{}}", cell, widths[i]);
      }
      line.append(kGap, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out.push_back(std::move(line));
  };
  add(columns_);
  for (const auto& r : rows_) add(r);
  return out;
}

void Table::print(const Invocation& in) const {
  const auto all = lines();
  fmt::print("{}\n", ink(in, Ink::bold, all.front()));
  for (std::size_t i = 1; i < all.size(); ++i) fmt::print("{}\n", all[i]);
}

Result<json::value> parse_document(const std::string& text) {
  boost::system::error_code failed;
  json::value v = json::parse(text, failed);
  if (failed) return error(VP_CORRUPT, "the daemon's answer is no JSON: {}", failed.message());
  return v;
}

const json::value& at(const json::value& object, std::string_view name) {
  static const json::value kNothing;
  if (!object.is_object()) return kNothing;
  const json::value* found = object.get_object().if_contains(name);
  return found != nullptr ? *found : kNothing;
}

std::string text_of(const json::value& object, std::string_view name, std::string_view otherwise) {
  const json::value& v = at(object, name);
  if (v.is_string()) return v.get_string().empty() ? std::string(otherwise) : std::string(v.get_string());
  if (v.is_null()) return std::string(otherwise);
  return json::serialize(v);
}

std::uint64_t number_of(const json::value& object, std::string_view name) {
  const json::value& v = at(object, name);
  if (v.is_uint64()) return v.get_uint64();
  if (v.is_int64()) return v.get_int64() < 0 ? 0 : static_cast<std::uint64_t>(v.get_int64());
  return v.is_double() && v.get_double() > 0 ? static_cast<std::uint64_t>(v.get_double()) : 0;
}

bool truth_of(const json::value& object, std::string_view name) {
  const json::value& v = at(object, name);
  return v.is_bool() && v.get_bool();
}

const json::array& list_of(const json::value& object, std::string_view name) {
  static const json::array kNone;
  const json::value& v = at(object, name);
  return v.is_array() ? v.get_array() : kNone;
}

std::string bytes_of(const json::value& object, std::string_view name) { return format_bytes(number_of(object, name)); }

json::object document(std::string_view verb) { return {{"schema", fmt::format("vrampool.{}", verb)}, {"version", 1}}; }

void print_json(const json::value& v) {
  std::string out;
  pretty(out, v, 0);
  out += '\n';
  std::fwrite(out.data(), 1, out.size(), stdout);
}

std::string plural(std::uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string age_text(std::uint64_t unix_ms) {
  if (unix_ms == 0) return "-";
  const std::int64_t seconds =
      static_cast<std::int64_t>(std::time(nullptr)) - static_cast<std::int64_t>(unix_ms / 1000);
  if (seconds < 60) return "just now";
  if (seconds < 3600) return fmt::format("{} min", seconds / 60);
  if (seconds < 2 * 86400) return fmt::format("{} h", seconds / 3600);
  return fmt::format("{} days", seconds / 86400);
}

}  // namespace vrampool::cli
