#!/usr/bin/env bash
# Fails if an ELF file needs a newer glibc than the given one: `check-glibc.sh FILE [VERSION]`. Needs readelf (binutils).
set -euo pipefail

file=${1:?"usage: check-glibc.sh FILE [VERSION]"}
allowed=${2:-2.28}

# Also fails where the file is no ELF file.
needed=$(LC_ALL=C readelf --wide --version-info "$file" | awk '
  /^Version needs section/ { in_needs = 1; next }
  /^Version / { in_needs = 0 }
  in_needs {
    for (i = 1; i < NF; i++) if ($i == "Name:" && $(i + 1) ~ /^GLIBC_/) print substr($(i + 1), 7)
  }' | sort -uV)

if [[ -z $needed ]]; then
  if LC_ALL=C readelf --wide --dynamic "$file" | grep -q '(NEEDED).*libc\.so'; then
    printf '%s: uses glibc, but names no version of it\n' "$file" >&2
    exit 1
  fi
  printf '%s: needs no glibc\n' "$file"
  exit 0
fi

# A mark that is no number (GLIBC_ABI_DT_RELR) came with a glibc that is newer than all that are asked for here.
too_new=$(while read -r version; do
  if [[ ! $version =~ ^[0-9.]+$ || $(printf '%s\n' "$version" "$allowed" | sort -V | tail -n 1) != "$allowed" ]]; then
    printf '%s ' "$version"
  fi
done <<<"$needed")
if [[ -n $too_new ]]; then
  printf '%s: needs a newer glibc than %s: %s\n' "$file" "$allowed" "$too_new" >&2
  exit 1
fi
printf '%s: needs glibc %s, and %s is allowed\n' "$file" "$(tail -n 1 <<<"$needed")" "$allowed"
