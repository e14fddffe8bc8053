# Cross-compiles to arm64 macOS on Linux with Zig's clang, libc++ and Darwin headers. No Apple SDK is involved, so
# whatever Zig's tree lacks (frameworks, OpenSSL, SQLite) is left undefined at link and looked up at load.
set(CMAKE_SYSTEM_NAME Darwin)
set(CMAKE_SYSTEM_PROCESSOR arm64)
set(CMAKE_SYSTEM_VERSION 24)
set(CMAKE_C_COMPILER ${CMAKE_CURRENT_LIST_DIR}/bin/cc)
set(CMAKE_CXX_COMPILER ${CMAKE_CURRENT_LIST_DIR}/bin/c++)
set(CMAKE_AR ${CMAKE_CURRENT_LIST_DIR}/bin/ar)
set(CMAKE_RANLIB ${CMAKE_CURRENT_LIST_DIR}/bin/ranlib)
# A no-op: nothing is edited after the link, the ad-hoc signature covers every byte.
set(CMAKE_INSTALL_NAME_TOOL true)
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,-undefined,dynamic_lookup")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-Wl,-undefined,dynamic_lookup")

# Headers of the libraries, and only those: symbolic links made by scripts/macos-build.sh. The host's include
# directory as a whole would let glibc's headers in.
get_filename_component(vp_root ${CMAKE_CURRENT_LIST_DIR}/../.. ABSOLUTE)
set(VP_MACOS_SYSROOT ${vp_root}/.cache/macos)
set(CMAKE_FIND_ROOT_PATH ${VP_MACOS_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
list(PREPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR}/modules)
# On a host that is no Mac, CMake does not know how to write a shared library's run path.
set(CMAKE_PROJECT_INCLUDE ${CMAKE_CURRENT_LIST_DIR}/after_project.cmake)
