#!/usr/bin/env bash
# Starts ranks of tests with an MPI's own launcher and checks their results.
#
#   run_ranks.sh openmpi|mpich RANKS CASE PROGRAM MODULES
#
# MODULES is the folder of the modules. Every rank writes its failures into a file, which is empty
# when there are none. The status of mpirun is ignored, because a rank that may not finalize MPI
# makes it fail. Exits 77 with a reason if the launcher or the module is missing.
set -euo pipefail

flavour=$1 ranks=$2 case=$3 program=$4 modules=$5
launcher=mpirun.$flavour
command -v "$launcher" >/dev/null || { echo "skipped: there is no $launcher"; exit 77; }
[[ -e $modules/lockstep_mpi_$flavour.so ]] ||
  { echo "skipped: the module for $flavour was not built"; exit 77; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMP_NUM_THREADS=1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
export LOCKSTEP_TEST_MPI=$flavour

status=0
timeout 150 "$launcher" -n "$ranks" "$program" "$folder" "$case" >"$folder/output" 2>&1 ||
  status=$?

failed=0
for ((rank = 0; rank < ranks; ++rank)); do
  if [[ ! -e $folder/result-$rank ]]; then
    echo "rank $rank left no result"
    failed=1
  elif [[ -s $folder/result-$rank ]]; then
    sed "s/^/rank $rank: /" "$folder/result-$rank"
    failed=1
  fi
done
# Ranks that end properly cause no complaint.
if [[ $case != absent && $status -ne 0 ]]; then
  echo "$launcher ended with status $status"
  failed=1
fi
[[ $failed -eq 0 ]] || cat "$folder/output"
exit "$failed"
