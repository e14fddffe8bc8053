// Systems without userfaultfd.
#include "bench/baselines.h"

namespace vrampool::bench {

Result<Measured> bare_fault(std::uint32_t) {
  return error(VP_UNSUPPORTED, "there is no userfaultfd on this system, so there is no bare fault to compare with");
}

}  // namespace vrampool::bench
