#include "base/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <memory>

namespace vrampool::log {
namespace {

std::atomic<int> g_level{static_cast<int>(Level::warn)};

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::debug:
      return spdlog::level::debug;
    case Level::info:
      return spdlog::level::info;
    case Level::warn:
      return spdlog::level::warn;
    case Level::error:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

std::shared_ptr<spdlog::logger>& logger() {
  static std::shared_ptr<spdlog::logger> instance = [] {
    auto made = std::make_shared<spdlog::logger>("vrampool", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%n: %l: %v");
    made->set_level(spdlog::level::debug);
    return made;
  }();
  return instance;
}

}  // namespace

void start(std::string_view program, Level level, const std::string& file_or_empty) {
  spdlog::sink_ptr sink;
  if (file_or_empty.empty())
    sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  else
    sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file_or_empty);
  auto made = std::make_shared<spdlog::logger>(std::string(program), std::move(sink));
  made->set_pattern("%Y-%m-%dT%H:%M:%S.%e %n[%P] %l: %v");
  made->set_level(spdlog::level::debug);
  made->flush_on(spdlog::level::info);
  logger() = std::move(made);
  g_level = static_cast<int>(level);
}

Level parse_level(std::string_view text, Level fallback) {
  if (text == "debug") return Level::debug;
  if (text == "info") return Level::info;
  if (text == "warn") return Level::warn;
  if (text == "error") return Level::error;
  return fallback;
}

bool enabled(Level level) { return static_cast<int>(level) >= g_level.load(std::memory_order_relaxed); }

void write(Level level, std::string_view line) { logger()->log(to_spdlog(level), line); }

}  // namespace vrampool::log
