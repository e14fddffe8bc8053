// VP_ASSERT: for what only a bug can cause. Kept on in release builds.
#pragma once

namespace vrampool {
[[noreturn]] void assert_failed(const char* expression, const char* file, int line);
}

#define VP_ASSERT(cond) \
  (static_cast<bool>(cond) ? static_cast<void>(0) : ::vrampool::assert_failed(#cond, __FILE__, __LINE__))
