// How calls of the C interface fail: the calling thread's last error text, and the wall no exception crosses.
#pragma once

#include <exception>
#include <new>
#include <string_view>

#include "base/result.h"
#include "vrampool/vrampool.h"

namespace vrampool::client {

// Threads: the text is the calling thread's own. Errors longer than 511 bytes are cut.
void set_last_error(std::string_view text);
const char* last_error();

inline vp_status fail(const Error& e) {
  set_last_error(e.message);
  return e.code;
}

// Runs `body` (returning Status) as a call of the C interface.
template <class Body>
vp_status guarded(Body&& body) noexcept {
  try {
    Status s = body();
    return s ? VP_OK : fail(s.error());
  } catch (const std::bad_alloc&) {
    set_last_error("out of memory");
    return VP_NO_SPACE;
  } catch (const std::exception& e) {
    set_last_error(e.what());
    return VP_FAILED;
  }
}

}  // namespace vrampool::client
