#!/usr/bin/env bash
# Writes FOLDER/SHA256SUMS with a line for each file there, the signature and the sums themselves left out:
# `checksums.sh FOLDER`.
set -euo pipefail
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
"${sum[@]}" "${files[@]}" >.SHA256SUMS.new
mv .SHA256SUMS.new SHA256SUMS
