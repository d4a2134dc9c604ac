#!/usr/bin/env bash
# Writes FOLDER/SHA256SUMS with a line for each file there, the signature and the sums themselves left out:
# `checksums.sh FOLDER`. The first line is a comment with the version and the date (RFC 3339, UTC): an update refuses a list
# that is older than one that it has seen.
set -euo pipefail
version=$("$(dirname "$0")/version.sh")
cd "${1:?"usage: checksums.sh FOLDER"}"

sum=(sha256sum)
if ! command -v sha256sum >/dev/null; then
  sum=(shasum -a 256)
fi
rm -f SHA256SUMS SHA256SUMS.sig
files=()
for file in *; do
  if [[ -f $file ]]; then
    files+=("$file")
  fi
done
if ((${#files[@]} == 0)); then
  printf 'there is no file in %s\n' "$PWD" >&2
  exit 1
fi
{
  printf '# punie-runner %s %s\n' "$version" "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
  "${sum[@]}" "${files[@]}"
} >.SHA256SUMS.new
mv .SHA256SUMS.new SHA256SUMS
