// Printing: tables that fit 100 columns, colour only where a person looks, JSON as it came.
#pragma once

#include <boost/json/value.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"

namespace vrampool::cli {

namespace json = boost::json;

inline constexpr std::size_t kColumnsMax = 100;

// True for a terminal on stdout, unless NO_COLOR is set, TERM is "dumb" or --no-color was given.
bool colour_wanted(bool forbidden);
enum class Ink { none, bold, dim, red, yellow, green };
std::string ink(const Invocation&, Ink, std::string_view text);

// Columns as wide as their widest cell; when the sum passes 100, the widest text column is cut with "...".
class Table {
 public:
  // A name that starts with '>' makes a right-aligned column of numbers.
  explicit Table(std::vector<std::string> columns);
  void row(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  void print(const Invocation&) const;
  std::vector<std::string> lines() const;  // the first one is the heading

 private:
  std::vector<std::string> columns_;
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;
};

// ---- documents from the daemon: a missing field reads as empty, so that an older daemon still shows ----
Result<json::value> parse_document(const std::string& text);
const json::value& at(const json::value& object, std::string_view name);
std::string text_of(const json::value& object, std::string_view name, std::string_view otherwise = "-");
std::uint64_t number_of(const json::value& object, std::string_view name);
bool truth_of(const json::value& object, std::string_view name);
const json::array& list_of(const json::value& object, std::string_view name);
std::string bytes_of(const json::value& object, std::string_view name);
// A new document: {"schema": "vrampool.<verb>", "version": 1}.
json::object document(std::string_view verb);
// Indented, one member a line; ends with a newline.
void print_json(const json::value&);

// "1 node", "2 nodes".
std::string plural(std::uint64_t count, std::string_view noun);
std::string age_text(std::uint64_t unix_ms);

}  // namespace vrampool::cli
