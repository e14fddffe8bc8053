// Linux: pressure stall information and MemAvailable.
#include "platform/pressure.h"

#include "platform/machine.h"
#include "platform/posix/small_file.h"

namespace vrampool::platform {

namespace {
// PSI since 4.20; absent when the kernel was started with psi=0: then only MemAvailable speaks.
double average10(const std::string& text, std::string_view line) {
  const auto at = text.find(line);
  if (at == std::string::npos) return 0;
  const auto number = text.find("avg10=", at);
  return number == std::string::npos ? 0 : std::strtod(text.c_str() + number + 6, nullptr);
}
}  // namespace

Pressure memory_pressure(const PressureRule& rule) {
  const std::string psi = read_small_file("/proc/pressure/memory");
  Pressure p;
  p.available_bytes = system_memory().available;
  p.some_percent = average10(psi, "some");
  p.full_percent = average10(psi, "full");
  p.level = judge_pressure(rule, p.available_bytes, ram_bytes(), p.some_percent, p.full_percent);
  return p;
}

}  // namespace vrampool::platform
