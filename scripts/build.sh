#!/usr/bin/env bash
# Configures (once) and builds one preset of CMakePresets.json: scripts/build.sh <preset> [targets...]
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift
[ -f "build/$preset/build.ninja" ] || cmake --preset "$preset"
exec ninja -C "build/$preset" "$@"
