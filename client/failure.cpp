#include "client/failure.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace vrampool::client {

namespace {
thread_local std::array<char, 512> t_last_error{};
}

void set_last_error(std::string_view text) {
  const std::size_t n = std::min(text.size(), t_last_error.size() - 1);
  std::memcpy(t_last_error.data(), text.data(), n);
  t_last_error[n] = '\0';
}

const char* last_error() { return t_last_error.data(); }

}  // namespace vrampool::client
