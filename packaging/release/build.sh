#!/usr/bin/env bash
# Builds the program as it is shipped: `build.sh TARGET` prints the path of the binary.
#
# TARGET is one of rustc's. With a version of glibc behind it (x86_64-unknown-linux-gnu.2.28), or for musl, Zig links it:
# that needs cargo-zigbuild and Zig (`pip install cargo-zigbuild ziglang`). `universal-apple-darwin` joins both Macs.
#
# What `punie-runner update` trusts is built in, if it is set: PUNIE_RELEASE_URL, the folder with the files of the newest
# release, and PUNIE_RELEASE_PUBLIC_KEY_FILE, the file with the public key in PEM.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

target=${1:?"usage: build.sh TARGET"}
target_dir=${CARGO_TARGET_DIR:-target}
program=punie-runner

if [[ -n ${PUNIE_RELEASE_PUBLIC_KEY_FILE:-} ]]; then
  key=$(grep -v -e '-----' "$PUNIE_RELEASE_PUBLIC_KEY_FILE" | tr -d '\r\n')
  if [[ -n $key ]]; then
    export PUNIE_RELEASE_PUBLIC_KEY=$key
  fi
fi

case $target in
universal-apple-darwin)
  for half in x86_64-apple-darwin aarch64-apple-darwin; do
    cargo build --locked --profile dist --target "$half" --bin "$program" >&2
  done
  mkdir -p "$target_dir/$target/dist"
  lipo -create -output "$target_dir/$target/dist/$program" \
    "$target_dir/x86_64-apple-darwin/dist/$program" "$target_dir/aarch64-apple-darwin/dist/$program"
  ;;
*-linux-musl | *-linux-gnu.*)
  cargo zigbuild --locked --profile dist --target "$target" --bin "$program" >&2
  # The folder is named without the version of glibc.
  target=${target%%.*}
  ;;
*)
  cargo build --locked --profile dist --target "$target" --bin "$program" >&2
  ;;
esac

binary=$target_dir/$target/dist/$program
if [[ $target == *windows* ]]; then
  binary+=.exe
fi
packaging/release/check-failpoints.sh absent "$binary"
printf '%s\n' "$binary"
