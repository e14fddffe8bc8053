#!/usr/bin/env bash
# Man pages and completion scripts out of a built vrampool: scripts/make-texts.sh <vrampool> <share directory>
set -euo pipefail
program=$1
share=$2
rm -rf "$share"
mkdir -p "$share/man/man1" "$share/bash-completion/completions" "$share/zsh/site-functions" "$share/fish/vendor_completions.d"
"$program" --man >"$share/man/man1/vrampool.1"
"$program" help --paths | while read -r path; do
  # shellcheck disable=SC2086
  "$program" $path --man >"$share/man/man1/vrampool-${path// /-}.1"
done
"$program" completion bash >"$share/bash-completion/completions/vrampool"
"$program" completion zsh >"$share/zsh/site-functions/_vrampool"
"$program" completion fish >"$share/fish/vendor_completions.d/vrampool.fish"
touch "$share/done"
