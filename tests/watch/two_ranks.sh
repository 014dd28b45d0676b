#!/usr/bin/env bash
# Starts two ranks of a script, as a launcher does that leaves them alone: two_ranks.sh PYTHON SCRIPT FOLDER
set -u
mkdir -p "$3"
export WORLD_SIZE=2 STORE="file://$3/store" STARTED="$3/started" OMP_NUM_THREADS=1
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
