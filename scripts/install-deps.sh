#!/usr/bin/env bash
# Installs what the build and its tests need and this machine lacks: apt on Debian and Ubuntu, Homebrew on macOS.
# Does nothing, within a second, when everything is there. Works as root or with sudo.
set -euo pipefail

# A name with bars lists alternatives: the first one that is installed or can be had counts.
debian_packages=(
  cmake ninja-build ccache g++ clang 'clang-format-14|clang-format' llvm
  'libboost1.81-dev|libboost1.83-dev|libboost-dev' libfmt-dev libspdlog-dev libssl-dev libsqlite3-dev
  libflatbuffers-dev flatbuffers-compiler libtomlplusplus-dev libcli11-dev
  doctest-dev librapidcheck-dev libbenchmark-dev
  python3 python3-pytest python3-venv mandoc
)
brew_packages=(cmake ninja ccache boost fmt spdlog openssl@3 sqlite flatbuffers tomlplusplus cli11 doctest python)

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else
    echo "install-deps: root is needed to run: $*" >&2
    exit 1
  fi
}

debian_missing() {
  local installed want name found
  installed=" $(dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' 2>/dev/null | sed -n 's/^ii //p' | tr '\n' ' ')"
  for want in "${debian_packages[@]}"; do
    found=
    for name in ${want//|/ }; do
      case "$installed" in *" $name "*) found=1 ;; esac
    done
    [ -n "$found" ] || echo "$want"
  done
}

debian_candidate() {  # the first of the alternatives that apt can install
  local name candidate
  for name in ${1//|/ }; do
    candidate=$(apt-cache policy "$name" 2>/dev/null | sed -n 's/^  Candidate: //p')
    if [ -n "$candidate" ] && [ "$candidate" != "(none)" ]; then echo "$name"; return; fi
  done
  echo "${1%%|*}"
}

install_debian() {
  local missing want names=()
  mapfile -t missing < <(debian_missing)
  [ "${#missing[@]}" -gt 0 ] || return 0
  as_root apt-get update -qq
  for want in "${missing[@]}"; do names+=("$(debian_candidate "$want")"); done
  echo "install-deps: installing ${names[*]}"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${names[@]}" >/dev/null
}

install_brew() {
  local missing=() name have
  have=" $(brew list --formula -1 | tr '\n' ' ')"
  for name in "${brew_packages[@]}"; do
    case "$have" in *" $name "* | *" $name@"*) ;; *) missing+=("$name") ;; esac
  done
  [ "${#missing[@]}" = 0 ] || brew install "${missing[@]}"
}

if command -v dpkg-query >/dev/null; then
  install_debian
elif command -v brew >/dev/null; then
  install_brew
else
  echo "install-deps: neither apt nor Homebrew here; install by hand: ${debian_packages[*]}" >&2
  exit 1
fi
