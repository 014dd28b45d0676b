#!/usr/bin/env bash
# The example of docs/ci.md: `git bisect run lockstep watch --bisect` finds the commit after which ranks differ.
#
#   bisect.sh LOCKSTEP PYTHON SOURCES
set -uo pipefail
lockstep=$1 python=$2 sources=$3
command -v git >/dev/null || { echo "skipped: git is missing"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 OMP_NUM_THREADS=1
"$sources/examples/bisect/make_history.sh" "$folder/repository" || exit 1
cd "$folder/repository" || exit 1

# Two ranks as torchrun would start them, without the seconds that torchrun itself takes.
printf '#!/bin/sh\nexec "%s" "%s" train.py 2\n' "$python" "$sources/tests/forked_ranks.py" >"$folder/train.sh"
chmod +x "$folder/train.sh"

git bisect start main v1 >"$folder/log" 2>&1 || exit 1
git bisect run "$lockstep" watch --bisect -- "$folder/train.sh" >"$folder/log" 2>&1
status=$?
found=$(git log -1 --format=%s refs/bisect/bad)
skipped=$(git for-each-ref 'refs/bisect/skip-*' --format='%(contents:subject)')
runs=$(find runs -mindepth 1 -maxdepth 1 -type d | wc -l)
echo "$runs runs, status $status, found '$found', skipped '$skipped'"
if [[ $status != 0 || $found != 'reduce matrices only' || $skipped != 'print the loss' ]] ||
  ! grep -q 'is the first bad commit' "$folder/log"; then
  tail -n 60 "$folder/log"
  exit 1
fi

# Wrong arguments end the bisection instead of blaming a commit.
git bisect reset >"$folder/log" 2>&1
git bisect start main v1 >"$folder/log" 2>&1 || exit 1
git bisect run "$lockstep" watch --bisect --evry 2 -- "$folder/train.sh" >"$folder/log" 2>&1 && exit 1
grep -q 'bisect run failed' "$folder/log" || { tail -n 20 "$folder/log"; exit 1; }
