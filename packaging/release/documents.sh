#!/usr/bin/env bash
# Writes what packages carry beside the program: `documents.sh FOLDER` makes FOLDER/man and FOLDER/completions. They are
# the same on all systems, so one machine makes them for all.
set -euo pipefail

mkdir -p "${1:?"usage: documents.sh FOLDER"}"
folder=$(cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
date=$(date -u -d "@${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}" +%F)
cargo test --quiet --locked --test package_documents -- "$folder" "$date"
