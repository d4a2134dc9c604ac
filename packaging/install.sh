#!/bin/sh
# Installs punie-runner for one user: downloads the archive of this release, checks its signature and its checksum, and puts
# the program, its manual pages and its completions below ~/.local. Needs no root, and starts nothing.
#
#   curl -fsSL RELEASE/install.sh | sh
#   curl -fsSL RELEASE/install.sh | sh -s -- --prefix /usr/local
#
# Plain POSIX sh. Needs curl or wget, tar, gzip, and OpenSSL 3 for the signature. A release fills in the three values that
# follow (packaging/release/installer.sh); the variables PUNIE_INSTALL_URL, PUNIE_INSTALL_KEY and PUNIE_INSTALL_VERSION
# replace them, for a mirror and for tests.

set -eu

URL=${PUNIE_INSTALL_URL:-'@URL@'}
# The Ed25519 key of the releases: the middle line of its PEM file.
PUBLIC_KEY=${PUNIE_INSTALL_KEY:-'@PUBLIC_KEY@'}
VERSION=${PUNIE_INSTALL_VERSION:-'@VERSION@'}
# The glibc that the archives for it are built for.
LEAST_GLIBC=2.28
# What a failure leaves behind.
outcome='Nothing was installed or changed.'

say() {
  printf '%s\n' "$*"
}

fail() {
  printf 'install.sh: %s\n' "$1" >&2
  shift
  for line in "$@"; do
    printf '  %s\n' "$line" >&2
  done
  say "  $outcome" >&2
  exit 1
}

print_usage() {
  say 'install.sh: installs punie-runner.

  --prefix DIR      install into DIR/bin and DIR/share (default: ~/.local)
  --no-signature    trust HTTPS and the checksum alone, where no OpenSSL 3 is at hand
  --help            print this text'
}

has() {
  command -v "$1" >/dev/null 2>&1
}

read_options() {
  prefix=
  wants_signature=yes
  while [ $# -gt 0 ]; do
    case $1 in
    --prefix)
      [ $# -gt 1 ] || fail '--prefix needs a folder.'
      prefix=$2
      shift
      ;;
    --prefix=*) prefix=${1#--prefix=} ;;
    --no-signature) wants_signature=no ;;
    --help | -h)
      print_usage
      exit 0
      ;;
    *) fail "unknown option: $1" 'sh install.sh --help lists them.' ;;
    esac
    shift
  done
  if [ -z "$prefix" ]; then
    [ -n "${HOME:-}" ] || fail 'HOME is not set.' 'Name the folder: --prefix DIR'
    prefix=$HOME/.local
  fi
  case $prefix in
  /*) ;;
  *) prefix=$(pwd)/$prefix ;;
  esac
  case $URL$PUBLIC_KEY$VERSION in
  *@[A-Z]*@*) fail 'this copy of the script was not made by a release: its address, key or version is missing.' \
    'Take install.sh from the page of a release.' ;;
  esac
  if [ $wants_signature = no ]; then
    case $URL in
    https://*) ;;
    *) fail "without the signature, the address must begin with https://: $URL" ;;
    esac
  fi
}

# The first of the archives that fits this machine. A static one runs with every libc.
detect_platform() {
  system=$(uname -s)
  machine=$(uname -m)
  case $machine in
  x86_64 | amd64) machine=x86_64 ;;
  aarch64 | arm64) machine=aarch64 ;;
  *) fail "there is no archive for the processor $machine." 'Build it from the source: cargo install --path .' ;;
  esac
  case $system in
  Linux) targets="$machine-unknown-linux-musl $machine-unknown-linux-gnu" ;;
  Darwin) targets=universal-apple-darwin ;;
  *) fail "there is no archive for the system $system." \
    'On Windows, take the archive from the page of the release. Elsewhere, build it from the source: cargo install --path .' ;;
  esac
}

# Downloads NAME of the release to the temporary folder.
download() {
  from=$URL/$1
  to=$work/$1
  if has curl; then
    code=0
    curl -fsSL --retry 2 --connect-timeout 20 -o "$to" "$from" 2>"$work/error" || code=$?
    [ $code -ne 23 ] || fail_unwritable "$work"
  elif has wget; then
    code=0
    wget -q -O "$to" "$from" 2>"$work/error" || code=$?
  else
    fail 'neither curl nor wget is installed.'
  fi
  [ $code -eq 0 ] || fail "cannot download $from" "$(tail -n 1 "$work/error")" \
    'Is the network up, and is there a proxy to set (https_proxy)?'
}

fail_unwritable() {
  fail "cannot write to $1" "$(df -P -k "$1" 2>/dev/null | awk 'NR == 2 { print $4 " KiB are free there." }')"
}

# Prints the name of an openssl that knows how to check Ed25519 over a file. That of macOS does not.
find_openssl() {
  for one in openssl openssl3 /opt/homebrew/opt/openssl@3/bin/openssl /usr/local/opt/openssl@3/bin/openssl; do
    if has "$one" && "$one" pkeyutl -help 2>&1 | grep -q -e '-rawin'; then
      printf '%s' "$one"
      return
    fi
  done
}

check_signature() {
  if [ $wants_signature = no ]; then
    say 'The signature was not checked, as you asked (--no-signature).'
    return
  fi
  openssl=$(find_openssl)
  [ -n "$openssl" ] || fail 'the signature cannot be checked: OpenSSL 3 is not installed.' \
    'Install it (apt-get install openssl, dnf install openssl, apk add openssl, brew install openssl@3), or add' \
    '--no-signature to trust HTTPS and the checksum alone.'
  download SHA256SUMS.sig
  printf '%s\n' '-----BEGIN PUBLIC KEY-----' "$PUBLIC_KEY" '-----END PUBLIC KEY-----' >"$work/key.pem"
  "$openssl" pkeyutl -verify -rawin -pubin -inkey "$work/key.pem" -in "$work/SHA256SUMS" \
    -sigfile "$work/SHA256SUMS.sig" >"$work/error" 2>&1 ||
    fail "the signature of $URL/SHA256SUMS is wrong." \
      'The files of the release were changed, or are not those of this project. Do not install them.'
}

sum_of() {
  if has sha256sum; then
    sha256sum "$1" | cut -d ' ' -f 1
  elif has shasum; then
    shasum -a 256 "$1" | cut -d ' ' -f 1
  elif has openssl; then
    openssl dgst -sha256 -r "$1" | cut -d ' ' -f 1
  else
    fail 'the checksum cannot be checked: neither sha256sum, shasum nor openssl is installed.'
  fi
}

# Sets `archive` to the name of the archive for this machine, and `expected` to its checksum.
choose_archive() {
  for target in $targets; do
    archive=punie-runner-$VERSION-$target
    expected=$(awk -v name="$archive.tar.gz" '$2 == name || $2 == "*" name { print $1; exit }' "$work/SHA256SUMS")
    if [ -n "$expected" ]; then
      case $target in
      *-linux-gnu) check_glibc ;;
      esac
      return
    fi
  done
  fail "release $VERSION has no archive for this machine ($targets)." 'Build it from the source: cargo install --path .'
}

check_glibc() {
  found=$(getconf GNU_LIBC_VERSION 2>/dev/null | awk '{ print $2 }') || found=
  fits=$(awk -v found="$found" -v least="$LEAST_GLIBC" 'BEGIN {
    split(found, have, "."); split(least, need, ".")
    print (have[1] > need[1] || (have[1] + 0 == need[1] + 0 && have[2] + 0 >= need[2] + 0)) ? "yes" : "no" }')
  [ "$fits" = yes ] || fail "the archive for this machine needs glibc $LEAST_GLIBC or newer, and here is ${found:-another libc}." \
    'Build it from the source: cargo install --path .'
}

# Copies FILE to TO, so that TO is at all times the old file or the new one.
put() {
  mkdir -p "$(dirname "$2")" 2>/dev/null || fail_unwritable "$(dirname "$2")"
  new=$(dirname "$2")/.punie-runner.install.$$
  { cp "$1" "$new" && chmod 644 "$new" && mv -f "$new" "$2"; } 2>/dev/null || fail_unwritable "$(dirname "$2")"
}

install_program() {
  program=$prefix/bin/punie-runner
  mkdir -p "$prefix/bin" 2>/dev/null || fail_unwritable "$prefix/bin"
  new=$prefix/bin/.punie-runner.install.$$
  { cp "$work/$archive/punie-runner" "$new" && chmod 755 "$new"; } 2>/dev/null || fail_unwritable "$prefix/bin"
  # Tried before it replaces one that works.
  said=$("$new" --version 2>&1) || fail "the program does not run on this machine: $said"
  [ "$said" = "punie-runner $VERSION" ] || fail "the program is not version $VERSION: it says $said"
  mv -f "$new" "$program" || fail_unwritable "$prefix/bin"
  outcome="The program is installed ($program); its manual pages and completions are not, or not all."
}

install_documents() {
  share=$prefix/share
  for page in "$work/$archive"/man/*.1; do
    put "$page" "$share/man/man1/$(basename "$page")"
  done
  scripts=$work/$archive/completions
  put "$scripts/punie-runner" "$share/bash-completion/completions/punie-runner"
  put "$scripts/punie-runner.fish" "$share/fish/vendor_completions.d/punie-runner.fish"
  put "$scripts/_punie-runner" "$share/zsh/site-functions/_punie-runner"
}

tell_what_next() {
  say "Installed punie-runner $VERSION:"
  say "  $program"
  say "  manual pages and completions below $share"
  case :$PATH: in
  *":$prefix/bin:"*)
    first=$(command -v punie-runner) || first=
    [ "$first" = "$program" ] || say "Another one comes first on your PATH: $first"
    ;;
  *)
    say "$prefix/bin is not on your PATH. Add this line to the start-up file of your shell (~/.profile):"
    say "  export PATH=\"$prefix/bin:\$PATH\""
    ;;
  esac
  say 'A runner that is up goes on as it is until you restart it.'
  say 'Next: punie-runner demo (shows it at work; none of your files are touched), then punie-runner --help'
}

main() {
  umask 022
  read_options "$@"
  detect_platform
  work=$(mktemp -d) || fail "cannot make a temporary folder in ${TMPDIR:-/tmp}."
  new=
  trap 'rm -rf "$work"; [ -z "$new" ] || rm -f "$new"' EXIT
  trap 'exit 1' HUP INT TERM
  download SHA256SUMS
  check_signature
  choose_archive
  say "Downloading punie-runner $VERSION for $target ..."
  download "$archive.tar.gz"
  sum=$(sum_of "$work/$archive.tar.gz")
  [ "$sum" = "$expected" ] ||
    fail "the checksum of $archive.tar.gz is wrong: the download is damaged or was changed."
  tar -C "$work" -xzf "$work/$archive.tar.gz" 2>"$work/error" ||
    fail "cannot unpack $archive.tar.gz: $(tail -n 1 "$work/error")"
  install_program
  install_documents
  tell_what_next
}

# At the end, so that a script of which only a part arrived does nothing.
main "$@"
