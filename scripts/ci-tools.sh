#!/usr/bin/env bash
# Installs what the checks of CI use beyond Node, a C++ compiler and CMake, on a Debian machine, and prints the variables
# that name it, for `eval`. Debian's packages need root or sudo; Python's go into an environment outside the clone, in
# COLLAPSAR_CI_TOOLS (~/.cache/collapsar-ci without it), made once for each python/peers.txt.
set -euo pipefail
cd "$(dirname "$0")/.."
packages=(chromium fonts-dejavu-core g++-aarch64-linux-gnu ninja-build qemu-user-static util-linux)

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q '^install ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  echo "installing ${missing[*]}" >&2
  as_root=()
  [ "$(id -u)" = 0 ] || as_root=(sudo)
  "${as_root[@]}" apt-get update -qq >&2
  DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
fi

tools=${COLLAPSAR_CI_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/collapsar-ci}
environment=$tools/python-$(sha256sum python/peers.txt | cut -c1-12)
if [ ! -e "$environment/complete" ]; then
  echo "installing the packages of python/peers.txt into $environment" >&2
  rm -rf "$environment"
  python3 -m venv "$environment"
  "$environment/bin/python" -m pip install --quiet --disable-pip-version-check -r python/peers.txt >&2
  touch "$environment/complete"
fi

nvcc=$(echo "$environment"/lib/python3*/site-packages/nvidia/cu13/bin/nvcc)
printf 'export PYTHON=%q COLLAPSAR_PYTHON=%q CUDACXX=%q PATH=%q:"$PATH"\n' "$environment/bin/python" \
  "$environment/bin/python" "$nvcc" "$environment/bin:$(dirname "$nvcc")"
