#!/usr/bin/env bash
# Writes what the program is made of, as CycloneDX in JSON: `sbom.sh TARGET FILE`. Needs cargo-cyclonedx
# (`cargo install cargo-cyclonedx --locked`).
set -euo pipefail
target=${1:?"usage: sbom.sh TARGET FILE"} file=${2:?"usage: sbom.sh TARGET FILE"}
mkdir -p "$(dirname "$file")"
file=$(cd "$(dirname "$file")" && pwd)/$(basename "$file")
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

# The tool writes beside each manifest, and those of the crates are not wanted: it works on a copy of what it reads.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git -C "$top" archive HEAD -- Cargo.toml Cargo.lock README.md src crates examples tests benches manual-tests | tar -x -C "$copy"
(cd "$copy" && cargo cyclonedx --format json --target "${target%%.*}" --override-filename sbom >&2)
# The name of the copy is of no interest to anybody.
sed "s|$copy|/punie-runner|g" "$copy/sbom.json" >"$file"
printf '%s\n' "$file"
