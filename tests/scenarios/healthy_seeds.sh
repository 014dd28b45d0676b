#!/usr/bin/env bash
# Runs every correct variant with other seeds on 2, 3, 4 and 8 ranks, and for 1 and for 100 steps on
# 2. Each cell must be as expected, neither a false alarm nor undecided. All are run, and the exit
# status is 1 if one was not.
#
#   tests/scenarios/healthy_seeds.sh LOCKSTEP [SEED...]      (default: 0 to 9)
set -euo pipefail

[ $# -ge 1 ] || { echo "usage: healthy_seeds.sh LOCKSTEP [SEED...]" >&2; exit 64; }
lockstep=$1
shift
seeds=("$@")
[ $# -gt 0 ] || seeds=(0 1 2 3 4 5 6 7 8 9)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

mapfile -t healthy < <("$lockstep" list --format json | python3 -c '
import json, sys
for scenario in json.load(sys.stdin)["scenarios"]:
    for variant in scenario["variants"]:
        if variant["role"] in ("fixed", "latent"):
            print(scenario["id"] + "/" + variant["name"])')
[ ${#healthy[@]} -gt 0 ] || { echo "healthy_seeds.sh: no variant is right" >&2; exit 1; }

status=0
run() {
  echo "${#healthy[@]} variants, $*"
  "$lockstep" run "${healthy[@]}" "$@" --out "$folder/run" >"$folder/report" ||
    { status=1; cat "$folder/report"; }
  tail -n 3 "$folder/report"
  rm -rf "$folder/run"
}
for seed in "${seeds[@]}"; do run --ranks 2,3,4,8 --seed "$seed"; done
run --ranks 2 --steps 1
run --ranks 2 --steps 100
exit $status
