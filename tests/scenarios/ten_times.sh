#!/usr/bin/env bash
# Runs every cell of scenarios ten times: with every value of its axes on 2 ranks, and with the
# defaults on 3 and 4. Each must be as expected, and each repetition must equal the first run,
# observation by observation.
#
#   tests/scenarios/ten_times.sh LOCKSTEP SCENARIO...
set -euo pipefail

[ $# -ge 2 ] || { echo "usage: ten_times.sh LOCKSTEP SCENARIO..." >&2; exit 64; }
lockstep=$1
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

for scenario in "$@"; do
  for options in "--matrix --ranks 2" "--ranks 3,4"; do
    echo "$scenario $options"
    # shellcheck disable=SC2086  # two options and their values
    "$lockstep" run "$scenario" $options --repeat 10 --out "$folder/run" | tail -n 6
    rm -rf "$folder/run"
  done
done
