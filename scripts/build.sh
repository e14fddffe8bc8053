#!/usr/bin/env bash
# Configures (once) and builds one preset of CMakePresets.json: scripts/build.sh <preset> [targets...]
set -euo pipefail
cd "$(dirname "$0")/.."
# One cache for every build folder and every clone: paths are hashed relative to the folder.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
preset=$1
shift
[ -f "build/$preset/build.ninja" ] || cmake --preset "$preset"
exec ninja -C "build/$preset" "$@"
