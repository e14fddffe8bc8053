#!/usr/bin/env bash
# Runs the simulator over many seeds: scripts/sim-long.sh <seeds>
set -euo pipefail
cd "$(dirname "$0")/.."
seeds=${1:-10000}
sim=$(find build/dev -name 'sim_run' -type f -perm -u+x | head -n 1)
[ -n "$sim" ] || { echo "sim-long: no simulator in build/dev; run make build first" >&2; exit 1; }
exec "$sim" --seeds "$seeds"
