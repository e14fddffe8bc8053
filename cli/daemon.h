// Asking the daemon: one question of the operator's, its document.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/print.h"
#include "client/admin.h"

namespace vrampool::cli {

// Errors: VP_UNREACHABLE with the places looked at and how to start a daemon.
Result<client::Admin> daemon(const Invocation&);
// The document of a verb; an empty object when the daemon answered with a line of text (`line` gets it).
Result<json::value> ask(const Invocation&, const std::string& verb, std::vector<std::string> arguments = {},
                        const json::object& sent = {}, std::string* line = nullptr);
// For verbs that only do something: prints the daemon's line, or `otherwise` when it said nothing.
Result<int> order(const Invocation&, const std::string& verb, std::vector<std::string> arguments,
                  const json::object& sent, const std::string& otherwise);
// Prints `line`, or with --json a document of `verb` that holds it as "message".
int say(const Invocation&, std::string_view verb, const std::string& line);

}  // namespace vrampool::cli
