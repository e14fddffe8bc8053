#include "cli/daemon.h"

#include <fmt/format.h>

#include <boost/json/serialize.hpp>

namespace vrampool::cli {

Result<client::Admin> daemon(const Invocation& in) {
  client::AdminOptions options;
  options.socket_path = in.socket;
  return client::Admin::connect(options);
}

Result<json::value> ask(const Invocation& in, const std::string& verb, std::vector<std::string> arguments,
                        const json::object& sent, std::string* line) {
  VP_TRY(admin, daemon(in));
  VP_TRY(text, admin.verb(verb, std::move(arguments), sent.empty() ? std::string() : json::serialize(sent)));
  if (text.starts_with('{')) return parse_document(text);
  if (line != nullptr) *line = text;
  return json::value(json::object());
}

int say(const Invocation& in, std::string_view verb, const std::string& line) {
  if (in.json) {
    json::object doc = document(verb);
    doc["message"] = line;
    print_json(doc);
  } else {
    fmt::print("{}\n", line);
  }
  return kFine;
}

Result<int> order(const Invocation& in, const std::string& verb, std::vector<std::string> arguments,
                  const json::object& sent, const std::string& otherwise) {
  std::string line;
  VP_TRY(doc, ask(in, verb, std::move(arguments), sent, &line));
  if (in.json && !doc.get_object().empty()) {
    print_json(doc);
    return kFine;
  }
  return say(in, verb, line.empty() ? text_of(doc, "message", otherwise) : line);
}

}  // namespace vrampool::cli
