#include "base/assert.h"

#include <cstdio>
#include <cstdlib>

namespace vrampool {

void assert_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "vrampool: bug: %s does not hold at %s:%d; please report it with this line\n", expression, file,
               line);
  std::abort();
}

}  // namespace vrampool
