// Reads a small text file of the system whole; empty when it cannot be read.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "base/unique_fd.h"

namespace vrampool::platform {

inline std::string read_small_file(const char* path) {
  const UniqueFd fd(::open(path, O_RDONLY | O_CLOEXEC));
  std::string text;
  char part[4096];
  while (fd && text.size() < (1u << 20)) {
    const ssize_t n = ::read(fd.get(), part, sizeof part);
    if (n <= 0) break;
    text.append(part, static_cast<std::size_t>(n));
  }
  return text;
}

// The number after "<key>" in text such as /proc/meminfo; 0 when it is not there.
inline unsigned long long number_after(const std::string& text, std::string_view key) {
  const auto at = text.find(key);
  return at == std::string::npos ? 0 : std::strtoull(text.c_str() + at + key.size(), nullptr, 10);
}

}  // namespace vrampool::platform
