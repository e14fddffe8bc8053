#!/usr/bin/env bash
# Runs the simulated pools over many seeds: scripts/sim-long.sh <seeds>
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/build.sh dev sim_membership
exec build/dev/tests/sim/sim_membership --seeds "${1:-10000}"
