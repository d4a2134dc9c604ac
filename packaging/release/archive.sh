#!/usr/bin/env bash
# Packs the program with its documents: `archive.sh BINARY TARGET DOCUMENTS FOLDER` makes
# FOLDER/punie-runner-VERSION-TARGET.tar.gz, with one folder of that name inside. DOCUMENTS is what documents.sh wrote.
set -euo pipefail

if (($# != 4)); then
  printf 'usage: archive.sh BINARY TARGET DOCUMENTS FOLDER\n' >&2
  exit 2
fi
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
binary=$1 documents=$3 folder=$4
# The version of glibc behind a target is not in the name. That of the program is: the signed checksums say by it which
# release they are of.
name=punie-runner-$("$top/packaging/release/version.sh")-${2%%.*}

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir "$stage/$name"
install -m 755 "$binary" "$stage/$name/$(basename "$binary")"
cp -R "$documents/man" "$documents/completions" "$stage/$name/"
cp "$top/README.md" "$top/CHANGELOG.md" "$top/LICENSE" "$top/LICENSE-APACHE" "$top/LICENSE-MIT" "$stage/$name/"

# The same content gives the same bytes, where tar is GNU's.
options=()
if tar --version 2>/dev/null | grep -q 'GNU tar'; then
  time=${SOURCE_DATE_EPOCH:-$(git -C "$top" log -1 --format=%ct 2>/dev/null || echo 0)}
  options=(--sort=name --owner=0 --group=0 --numeric-owner "--mtime=@$time")
fi
mkdir -p "$folder"
tar -C "$stage" ${options[@]+"${options[@]}"} -cf - "$name" | gzip -9n >"$stage/archive"
mv "$stage/archive" "$folder/$name.tar.gz"
printf '%s\n' "$folder/$name.tar.gz"
