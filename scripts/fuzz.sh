#!/usr/bin/env bash
# Builds every fuzz target with clang and runs each for some seconds: scripts/fuzz.sh <seconds>
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/build.sh fuzz fuzz_all
exec tests/fuzz/run.sh "${1:-30}" build/fuzz
