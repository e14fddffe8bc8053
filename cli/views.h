// How the documents' lists look as text; several verbs show the same ones.
#pragma once

#include "cli/print.h"

namespace vrampool::cli {

void print_health(const Invocation&, const json::array& health);
void print_nodes(const Invocation&, const json::array& nodes);
void print_segments(const Invocation&, const json::array& segments);
void print_jobs(const Invocation&, const json::array& jobs);
// "a, b, c" of a list of texts.
std::string joined(const json::array& texts);

}  // namespace vrampool::cli
