#!/usr/bin/env bash
# Fills in what a release has to tell those who install it: `installer.sh URL FOLDER` writes FOLDER/install.sh and
# FOLDER/punie-runner.rb, Homebrew's formula. URL is the folder of the release's files, PUNIE_RELEASE_PUBLIC_KEY_FILE the
# file with the public key in PEM. The archives are in FOLDER already: the formula has their checksums.
set -euo pipefail

url=${1:?"usage: installer.sh URL FOLDER"} folder=${2:?"usage: installer.sh URL FOLDER"}
key_file=${PUNIE_RELEASE_PUBLIC_KEY_FILE:?"PUNIE_RELEASE_PUBLIC_KEY_FILE names no file with the public key"}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
version=$("$here/version.sh")

key=$(grep -v -e '-----' "$key_file" | tr -d '\r\n')
# DER's head of an Ed25519 key, in base64.
if [[ $key != MCowBQYDK2VwAyEA* || ${#key} != 60 ]]; then
  printf '%s: no public Ed25519 key in PEM\n' "$key_file" >&2
  exit 1
fi
case $url in
*[\&\|\'\"\ ]* | "" | */)
  printf 'the address has a character that does not belong there, or a slash at its end: %s\n' "$url" >&2
  exit 1
  ;;
esac

sum() {
  local archive=$folder/punie-runner-$version-$1.tar.gz
  if [[ ! -f $archive ]]; then
    return
  fi
  if command -v sha256sum >/dev/null; then sha256sum "$archive"; else shasum -a 256 "$archive"; fi | cut -d ' ' -f 1
}

fill() {
  sed -e "s|@URL@|$url|g" -e "s|@PUBLIC_KEY@|$key|g" -e "s|@VERSION@|$version|g" \
    -e "s|@HOMEPAGE@|${url%%/releases/*}|g" "$@"
}

fill "$here/../install.sh" >"$folder/install.sh"
chmod 755 "$folder/install.sh"

sums=()
for target in universal-apple-darwin x86_64-unknown-linux-musl aarch64-unknown-linux-musl; do
  sum=$(sum "$target")
  if [[ -z $sum ]]; then
    printf 'no formula: the archive for %s is not in %s\n' "$target" "$folder" >&2
    exit 0
  fi
  sums+=(-e "s|@SUM_$target@|$sum|g")
done
fill "${sums[@]}" "$here/../homebrew/punie-runner.rb.in" >"$folder/punie-runner.rb"
