#!/usr/bin/env bash
# Cross-compiles and links daemon, SDK and CLI for arm64 macOS, then checks the results: scripts/macos-build.sh [targets...]
# The first run builds libc++ (two to four minutes) into .cache/; later ones reuse it.
set -euo pipefail
cd "$(dirname "$0")/.."
zig_version=0.14.1
python=$(scripts/python-env.sh "ziglang==$zig_version")
ln -sfn "$("$python" -c 'import os, ziglang; print(os.path.dirname(ziglang.__file__))')" .cache/zig

# Symbolic links to the headers of the libraries we use, one by one.
include=.cache/macos/include
mkdir -p "$include/openssl"
arch_include=/usr/include/$(gcc -print-multiarch 2>/dev/null || echo none)
for name in boost fmt spdlog toml++ CLI flatbuffers; do ln -sfn "/usr/include/$name" "$include/$name"; done
for name in sqlite3.h sqlite3ext.h; do ln -sf "/usr/include/$name" "$include/$name"; done
for header in /usr/include/openssl/*.h "$arch_include"/openssl/*.h; do
  if [ -f "$header" ]; then ln -sf "$header" "$include/openssl/"; fi
done

if [ ! -f build/macos/build.ninja ]; then
  cmake -S . -B build/macos -G Ninja -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/macos/toolchain.cmake" \
    -DCMAKE_BUILD_TYPE=Release -DVP_TESTS=OFF -DVP_EXAMPLES=OFF -DVP_WERROR=ON
fi
ninja -C build/macos "$@"
[ "$#" -gt 0 ] || python3 scripts/check_macho.py build/macos/bin/* build/macos/lib/*.dylib
