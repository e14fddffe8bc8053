// From argv to a command: values, usage errors, suggestions; and tables that fit.
#include "cli/parse.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "cli/help.h"
#include "cli/print.h"

using namespace vrampool::cli;

namespace {
Parsed parsed(std::vector<const char*> words) {
  words.insert(words.begin(), "vrampool");
  return parse(static_cast<int>(words.size()), words.data());
}
}  // namespace

TEST_CASE("values arrive checked, wherever the common options stand") {
  const Parsed p =
      parsed({"--socket", "s", "import", "a", "b", "--layout", "file", "--node", "n1", "--node", "n2", "--json"});
  REQUIRE(p.command != nullptr);
  CHECK(p.command->path == "import");
  CHECK(p.invocation.socket == "s");
  CHECK(p.invocation.json);
  CHECK(p.invocation.all("file") == std::vector<std::string>{"a", "b"});
  CHECK(p.invocation.all("--node") == std::vector<std::string>{"n1", "n2"});
  CHECK(p.invocation.text("--layout") == "file");
  CHECK_FALSE(p.invocation.has("--keep"));
}

TEST_CASE("an option takes one value and leaves the arguments that follow") {
  const Parsed p = parsed({"--socket", "s", "create", "huge", "--bytes", "1TiB"});
  REQUIRE(p.command != nullptr);
  CHECK(p.invocation.text("name") == "huge");
  CHECK(p.invocation.socket == "s");
}

TEST_CASE("two arguments are two arguments") {
  const Parsed p = parsed({"rename", "old", "new"});
  REQUIRE(p.command != nullptr);
  CHECK(p.invocation.text("name") == "old");
  CHECK(p.invocation.text("new-name") == "new");
}

TEST_CASE("a group's second word chooses the command") {
  const Parsed p = parsed({"bench", "page-read", "--count", "7"});
  REQUIRE(p.command != nullptr);
  CHECK(p.command->path == "bench page-read");
  CHECK(p.invocation.count("--count", 1) == 7);
}

TEST_CASE("usage errors are one line and exit status 2") {
  for (const auto& words : std::vector<std::vector<const char*>>{{"rm"},
                                                                 {"ls", "--nope"},
                                                                 {"create", "x", "--bytes", "1Q"},
                                                                 {"import", "f", "--layout", "x"},
                                                                 {"bench", "x"},
                                                                 {"frobnicate"},
                                                                 {"rename", "a", "b", "c"},
                                                                 {"jobs", "--cancel", "-1"}}) {
    const Parsed p = parsed(words);
    CHECK(p.command == nullptr);
    CHECK(p.exit_code == kUsage);
    CHECK(std::count(p.text.begin(), p.text.end(), '\n') == 1);
  }
}

TEST_CASE("a typing error gets a suggestion, nonsense gets none") {
  CHECK(parsed({"statsu"}).text.find("did you mean status?") != std::string::npos);
  CHECK(parsed({"bench", "stram"}).text.find("did you mean bench stream?") != std::string::npos);
  CHECK(parsed({"xyzzyplugh"}).text.find("did you mean") == std::string::npos);
}

TEST_CASE("every command has a summary, an example that starts with the program's name, and a page") {
  for (const Command& c : commands()) {
    INFO(c.path);
    CHECK_FALSE(c.summary.empty());
    REQUIRE_FALSE(c.examples.empty());
    for (const Example& e : c.examples) CHECK(e.line.find("vrampool") != std::string_view::npos);
    CHECK(man_page(c).find(".SH NAME") != std::string::npos);
    CHECK(static_cast<bool>(c.run));
  }
}

TEST_CASE("a table never passes a hundred columns and cuts texts, not numbers") {
  Table table({"NAME", ">SIZE", "WHERE"});
  table.row({std::string(150, 'n'), "123456 GiB", std::string(60, 'w')});
  for (const std::string& line : table.lines()) {
    CHECK(line.size() <= kColumnsMax);
    INFO(line);
  }
  CHECK(table.lines()[1].find("123456 GiB") != std::string::npos);
  CHECK(table.lines()[1].find("...") != std::string::npos);
}

TEST_CASE("a document that lacks fields still shows") {
  const auto doc = parse_document(R"({"a": 1, "b": [1], "c": "x"})");
  REQUIRE(doc);
  CHECK(number_of(*doc, "a") == 1);
  CHECK(number_of(*doc, "missing") == 0);
  CHECK(text_of(*doc, "missing") == "-");
  CHECK(list_of(*doc, "c").empty());
  CHECK_FALSE(parse_document("{nonsense").ok());
}
