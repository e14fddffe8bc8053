// sysctl by name, as number and as text.
#pragma once

#include <sys/sysctl.h>

#include <cstdint>
#include <string>

namespace vrampool::platform {

inline std::uint64_t sysctl_number(const char* name) {
  std::uint64_t value = 0;
  std::size_t n = sizeof value;
  // Some are 32 bits wide: little-endian, so the low half is filled and the rest stays zero.
  return ::sysctlbyname(name, &value, &n, nullptr, 0) == 0 ? value : 0;
}

inline std::string sysctl_text(const char* name) {
  char text[256] = {};
  std::size_t n = sizeof text - 1;
  return ::sysctlbyname(name, text, &n, nullptr, 0) == 0 ? text : "";
}

}  // namespace vrampool::platform
