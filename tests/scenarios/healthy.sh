#!/usr/bin/env bash
# Runs every correct variant with the options of `lockstep run`. Each cell must be as expected,
# neither a false alarm nor undecided.
#
#   tests/scenarios/healthy.sh LOCKSTEP [OPTION...]
set -euo pipefail

[ $# -ge 1 ] || { echo "usage: healthy.sh LOCKSTEP [OPTION...]" >&2; exit 64; }
lockstep=$1
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

mapfile -t healthy < <("$lockstep" list --format json | python3 -c '
import json, sys
for scenario in json.load(sys.stdin)["scenarios"]:
    for variant in scenario["variants"]:
        if variant["role"] in ("fixed", "latent"):
            print(scenario["id"] + "/" + variant["name"])')
[ ${#healthy[@]} -gt 0 ] || { echo "healthy.sh: no variant is right" >&2; exit 1; }
echo "${#healthy[@]} variants, $*"
"$lockstep" run "${healthy[@]}" "$@" --out "$folder/run"
