// The rule that turns memory figures into a level: pure.
#include "platform/pressure.h"

namespace vrampool::platform {

PressureLevel judge_pressure(const PressureRule& rule, std::uint64_t available_bytes, std::uint64_t ram_bytes,
                             double some_percent, double full_percent) {
  const double share = ram_bytes == 0 ? 1.0 : static_cast<double>(available_bytes) / static_cast<double>(ram_bytes);
  if (share < rule.critical_available_share || full_percent > rule.critical_full_percent)
    return PressureLevel::critical;
  if (share < rule.warn_available_share || some_percent > rule.warn_some_percent) return PressureLevel::warn;
  return PressureLevel::normal;
}

}  // namespace vrampool::platform
