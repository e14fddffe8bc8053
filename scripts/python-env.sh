#!/usr/bin/env bash
# Makes .cache/venv with the Python packages named on the command line (pip names, versions pinned by the caller) and
# prints the path of its interpreter. Does nothing when they are there.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=.cache/venv
# Debian's python has Debian's pytest; a python of the user's own may not.
host_python=/usr/bin/python3
[ -x "$host_python" ] || host_python=python3
if [ ! -x "$venv/bin/python" ]; then
  mkdir -p .cache
  "$host_python" -m venv --system-site-packages "$venv"
fi
"$venv/bin/python" -c 'import pytest' 2>/dev/null || set -- pytest "$@"
missing=()
for want in "$@"; do
  marker="$venv/installed-$want"
  [ -f "$marker" ] || missing+=("$want")
done
if [ "${#missing[@]}" -gt 0 ]; then
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "${missing[@]}" >&2
  for want in "${missing[@]}"; do touch "$venv/installed-$want"; done
fi
echo "$PWD/$venv/bin/python"
