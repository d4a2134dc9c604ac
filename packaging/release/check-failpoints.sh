#!/usr/bin/env bash
# Checks that a program has the failpoints of the tests, or that it has none: `check-failpoints.sh present|absent PROGRAM`.
# The name of their variable stands in a program that reads it. CI asks it of the debug program, which has them, so that a new
# name of the variable cannot make the check of a release empty.
set -euo pipefail

expected=${1:?"usage: check-failpoints.sh present|absent PROGRAM"}
program=${2:?"usage: check-failpoints.sh present|absent PROGRAM"}

test -f "$program"
found=absent
if LC_ALL=C grep -q PUNIE_FAILPOINTS "$program"; then
  found=present
fi
printf '%s: the failpoints are %s\n' "$program" "$found" >&2
[[ $found == "$expected" ]]
