// The log facade: spdlog stays in one .cpp. error = cannot go on, warn = odd, info = life of objects.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace vrampool::log {

enum class Level { debug, info, warn, error };

// Threads: any. Before `start` lines go to stderr at level warn and up.
void start(std::string_view program, Level level, const std::string& file_or_empty);
Level parse_level(std::string_view text, Level fallback);
bool enabled(Level level);
void write(Level level, std::string_view line);

template <class... Args>
void debug(fmt::format_string<Args...> f, Args&&... a) {
  if (enabled(Level::debug)) write(Level::debug, fmt::format(f, std::forward<Args>(a)...));
}
template <class... Args>
void info(fmt::format_string<Args...> f, Args&&... a) {
  if (enabled(Level::info)) write(Level::info, fmt::format(f, std::forward<Args>(a)...));
}
template <class... Args>
void warn(fmt::format_string<Args...> f, Args&&... a) {
  if (enabled(Level::warn)) write(Level::warn, fmt::format(f, std::forward<Args>(a)...));
}
template <class... Args>
void error(fmt::format_string<Args...> f, Args&&... a) {
  if (enabled(Level::error)) write(Level::error, fmt::format(f, std::forward<Args>(a)...));
}

}  // namespace vrampool::log
