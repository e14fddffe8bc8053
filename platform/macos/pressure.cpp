// macOS: the kernel's own pressure level, and available memory.
#include "platform/pressure.h"

#include <algorithm>

#include "platform/machine.h"
#include "platform/macos/system_values.h"

namespace vrampool::platform {

namespace {
// kern.memorystatus_vm_pressure_level: 1 normal, 2 warn, 4 critical, as dispatch's memory pressure source reports them.
PressureLevel kernel_level() {
  const std::uint64_t level = sysctl_number("kern.memorystatus_vm_pressure_level");
  if (level >= 4) return PressureLevel::critical;
  return level >= 2 ? PressureLevel::warn : PressureLevel::normal;
}
}  // namespace

Pressure memory_pressure(const PressureRule&) {
  Pressure p;
  p.level = kernel_level();
  p.available_bytes = system_memory().available;
  return p;
}

}  // namespace vrampool::platform
