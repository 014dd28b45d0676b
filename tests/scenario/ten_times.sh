#!/usr/bin/env bash
# Runs every cell of the catalogue ten times, with every combination of axis values: each is as
# expected, and each repetition is the first run again, observation by observation.
#
#   tests/scenario/ten_times.sh LOCKSTEP
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$1" run --matrix --ranks 2,3,4 --repeat 10 --out "$folder/run" | tail -n 20
