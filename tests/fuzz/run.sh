#!/bin/sh
# Runs every fuzz target for SECONDS; fails if one finds anything. Usage: run.sh SECONDS [BUILD] [TARGET...]
set -eu
seconds=${1:?usage: run.sh SECONDS [BUILD] [TARGET...]}
build=${2:-build/fuzz}
[ $# -ge 2 ] && shift 2 || shift $#
programs=$build/tests/fuzz
corpus=$build/fuzz-corpus
findings=$build/fuzz-findings
mkdir -p "$findings"
"$programs/fuzz_seeds" "$corpus"
[ $# -gt 0 ] || set -- $(cd "$programs" && ls fuzz_* | grep -v -e fuzz_seeds -e '\.')
failed=
for target in "$@"; do
  mkdir -p "$corpus/$target"
  if "$programs/$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 \
      -artifact_prefix="$findings/$target-" "$corpus/$target" >"$build/$target.log" 2>&1; then
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$build/$target.log")
    echo "$target: $runs runs, nothing found"
  else
    echo "$target: FOUND SOMETHING, see $build/$target.log and $findings"
    failed=yes
  fi
done
[ -z "$failed" ]
