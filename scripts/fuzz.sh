#!/usr/bin/env bash
# Builds every fuzz target and runs each for some seconds: scripts/fuzz.sh <seconds>
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-30}
scripts/build.sh fuzz fuzz_targets
count=0
for target in build/fuzz/bin/fuzz_*; do
  [ -x "$target" ] || continue
  name=$(basename "$target")
  corpus=.cache/fuzz/$name
  mkdir -p "$corpus"
  echo "fuzz: $name for $seconds s"
  seeds=tests/fuzz/corpus/$name
  [ -d "$seeds" ] || seeds=
  # Artefacts (the failing input) land beside the corpus.
  "$target" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 -print_final_stats=0 -verbosity=0 \
    -artifact_prefix="$corpus-" "$corpus" $seeds
  count=$((count + 1))
done
[ "$count" -gt 0 ] || { echo "fuzz: no target found" >&2; exit 1; }
echo "fuzz: $count targets, nothing found"
