#!/usr/bin/env bash
# Prints the version in Cargo.toml. With a tag as argument (v0.1.0), fails if the tag is of another one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

version=$(awk '/^\[/ { here = $0 == "[workspace.package]" } here && /^version = / { gsub(/"/, "", $3); print $3 }' Cargo.toml)
if [[ -n ${1:-} && $1 != "v$version" ]]; then
  printf 'the tag is %s, and Cargo.toml has %s\n' "$1" "$version" >&2
  exit 1
fi
printf '%s\n' "$version"
