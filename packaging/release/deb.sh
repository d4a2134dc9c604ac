#!/usr/bin/env bash
# Makes the Debian package: `deb.sh BINARY TARGET DOCUMENTS FOLDER` prints its path. DOCUMENTS is what documents.sh wrote.
# PUNIE_DEB_MAINTAINER is its maintainer ("Name <address>"). Needs cargo-deb (`cargo install cargo-deb --locked`) and dpkg.
set -euo pipefail

if (($# != 4)); then
  printf 'usage: deb.sh BINARY TARGET DOCUMENTS FOLDER\n' >&2
  exit 2
fi
maintainer=${PUNIE_DEB_MAINTAINER:?"PUNIE_DEB_MAINTAINER names no maintainer"}
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
binary=$1 target=${2%%.*} documents=$3
mkdir -p "$4"
folder=$(cd "$4" && pwd)

# Cargo.toml names the files of the package here. One at a time: two packages would mix their files.
input=$top/target/deb
rm -rf "$input"
mkdir -p "$input"
install -m 755 "$binary" "$input/punie-runner"
cp -R "$documents/man" "$documents/completions" "$input/"
gzip -9n "$input"/man/*

version=$("$top/packaging/release/version.sh")
date=$(date -R -u -d "@${SOURCE_DATE_EPOCH:-$(git -C "$top" log -1 --format=%ct)}")
printf 'punie-runner (%s-1) unstable; urgency=medium\n\n  * Release %s: /usr/share/doc/punie-runner/NEWS.gz says what is new.\n\n -- %s  %s\n' \
  "$version" "$version" "$maintainer" "$date" >"$input/changelog"

cd "$top"
cargo deb --no-build --no-strip --profile dist --target "$target" --maintainer "$maintainer" --output "$folder"
