#!/usr/bin/env bash
# Counts how often a command that waits for the owner's git to replace `.git/config` has that git run a program:
# `race_for_git_settings.sh PROGRAM [ROUNDS] [PAUSE]`. Run it as an ordinary user. PAUSE is a command between two tries.
set -euo pipefail
program=$(realpath "${1:?"usage: race_for_git_settings.sh PROGRAM [ROUNDS] [PAUSE]"}")
rounds=${2:-200} pause=${3:-sleep 0.02}
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
mkdir work home user
export HOME=$place/user PUNIE_HOME=$place/home
git() { command git -C work -c user.name=a -c user.email=a@b "$@"; }
git init -q -b main
git commit -q --allow-empty -m one

ran=0 left=0
for ((round = 1; round <= rounds; round++)); do
  rm -f work/begun ran
  line="touch begun; while :; do printf '[core]\n\tfsmonitor = \"touch $place/ran;false\"\n' >> .git/config; $pause; done"
  arguments=$(printf '%s' "$line 2>/dev/null" | python3 -c 'import json, sys; print(json.dumps({"command": sys.stdin.read(), "timeout": 20000}))')
  "$program" --workspace work call Bash "$arguments" >said 2>&1 &
  caller=$!
  for ((n = 0; n < 500; n++)); do
    if [[ -e work/begun ]]; then break; fi
    sleep 0.02
  done
  if [[ ! -e work/begun ]]; then
    cat said
    exit 1
  fi
  sleep 0.05
  case $((round % 3)) in
    0) git config branch.main.description "d$round" ;;
    1) git remote remove other 2>/dev/null || true
      git remote add other "https://example.com/$round" ;;
    2) git config --unset branch.main.description || true
      git config branch.main.description "d$round" ;;
  esac
  git status >/dev/null 2>&1 || true
  sleep 0.03
  git status >/dev/null 2>&1 || true
  if [[ -e ran ]]; then ran=$((ran + 1)); fi
  if grep -q fsmonitor work/.git/config; then left=$((left + 1)); fi
  kill "$caller" 2>/dev/null || true
  wait "$caller" || true
  sed -i '/fsmonitor/d' work/.git/config
done
printf '%s rounds, `%s` between two tries: the program ran in %s, its line stayed in %s\n' "$rounds" "$pause" "$ran" "$left"
