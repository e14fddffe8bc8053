// Texts made from the table of commands: help, man pages, shell completions.
#pragma once

#include <string>

#include "cli/command.h"

namespace vrampool::cli {

std::string help_overview();                    // the list of commands
std::string help_group(std::string_view word);  // the commands of one group ("bench")
std::string help_text(const Command&);
// man(7) source; the page of a command is vrampool-<verb>(1).
std::string man_overview();
std::string man_page(const Command&);
// "bash", "zsh" or "fish".
Result<std::string> completion_script(std::string_view shell);

}  // namespace vrampool::cli
