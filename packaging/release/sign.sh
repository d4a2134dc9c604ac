#!/usr/bin/env bash
# Signs FOLDER/SHA256SUMS: `sign.sh FOLDER` writes SHA256SUMS.sig, the 64 bytes of an Ed25519 signature over that file.
#
# The key is PUNIE_RELEASE_KEY_FILE, a file with a private key in PEM (`openssl genpkey -algorithm ed25519`). The file with
# the public key that is shipped is PUNIE_RELEASE_PUBLIC_KEY_FILE (`openssl pkey -pubout`): a signature that does not fit it
# is not left behind. Needs OpenSSL 3.
set -euo pipefail
folder=${1:?"usage: sign.sh FOLDER"}
key=${PUNIE_RELEASE_KEY_FILE:?"PUNIE_RELEASE_KEY_FILE names no file with the private key"}
public_key=${PUNIE_RELEASE_PUBLIC_KEY_FILE:?"PUNIE_RELEASE_PUBLIC_KEY_FILE names no file with the public key"}

rm -f "$folder/SHA256SUMS.sig"
new=$folder/.SHA256SUMS.sig.new
trap 'rm -f "$new"' EXIT
openssl pkeyutl -sign -rawin -inkey "$key" -in "$folder/SHA256SUMS" -out "$new"
openssl pkeyutl -verify -rawin -pubin -inkey "$public_key" -in "$folder/SHA256SUMS" -sigfile "$new" >&2
mv "$new" "$folder/SHA256SUMS.sig"
