#!/usr/bin/env bash
# Starts two ranks of a script, as a launcher does that leaves them alone: two_ranks.sh PYTHON SCRIPT [FOLDER]
# They meet in the folder, without it in a temporary one.
set -u
folder=${3:-$(mktemp -d)}
[[ -n ${3:-} ]] || trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder"
export WORLD_SIZE=2 STORE="file://$folder/store" STARTED="$folder/started" OMP_NUM_THREADS=1
ranks=()
for rank in 0 1; do
  RANK=$rank "$1" "$2" &
  ranks+=($!)
done
status=0
for rank in "${ranks[@]}"; do
  wait "$rank" || status=$?
done
exit $status
