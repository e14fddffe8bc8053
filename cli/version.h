// The program's version, as CMake was told.
#pragma once

#ifndef VP_VERSION
#define VP_VERSION "0"
#endif

namespace vrampool::cli {
inline constexpr const char* kVersion = VP_VERSION;
}
