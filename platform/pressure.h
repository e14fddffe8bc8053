// How short of memory this machine is, as polled values (Linux: PSI and MemAvailable; macOS: sysctl).
#pragma once

#include <cstdint>

namespace vrampool::platform {

enum class PressureLevel : std::uint8_t { normal, warn, critical };

struct Pressure {
  PressureLevel level = PressureLevel::normal;
  std::uint64_t available_bytes = 0;  // what could be used before the system suffers
  // Share of the last 10 s in which some task, or all tasks, waited for memory. 0 where the system does not say.
  double some_percent = 0;
  double full_percent = 0;
};

// Where warn and critical begin. Available memory is a share of all RAM.
struct PressureRule {
  double warn_available_share = 0.08;
  double critical_available_share = 0.03;
  double warn_some_percent = 20;
  double critical_full_percent = 20;
};

// Threads: any. Blocking: reads two small files; call a few times a second, not per page.
Pressure memory_pressure(const PressureRule& rule = {});

// The rule alone, without the system: pure.
PressureLevel judge_pressure(const PressureRule& rule, std::uint64_t available_bytes, std::uint64_t ram_bytes,
                             double some_percent, double full_percent);

}  // namespace vrampool::platform
