#!/usr/bin/env bash
# Installs a build, then builds and runs examples/libtorch_loop with it: a project with a LibTorch of
# its own.
#
#   libtorch_test.sh CMAKE BUILD PYTHON
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/package_checks.sh"
cmake=$1
build=$2
torch=$("$3" -c 'import os, torch; print(os.path.dirname(torch.__file__))')
project=$here/../../examples/libtorch_loop

unset LOCKSTEP_PYTHON LOCKSTEP_CATALOGUE
run 0 "$cmake" --install "$build" --prefix "$folder/prefix"
run 0 configure built -DTorch_DIR="$here/torch" -DTORCH_FOLDER="$torch"
run 0 "$cmake" --build built

train() {  # RUN, OPTIONS of the program
  local rank pids=() status=0
  for rank in 0 1; do
    RANK=$rank WORLD_SIZE=2 built/libtorch_loop "$1" "$folder/store of $1" "${@:2}" &
    pids+=($!)
  done
  for rank in 0 1; do wait "${pids[$rank]}" || status=$?; done
  return $status
}
train right
run 0 "$folder/prefix/bin/lockstep" report right
says "in lockstep: 4 of 4 parameters compared on 2 of 2 ranks"
train wrong --forget-reduction
run 1 "$folder/prefix/bin/lockstep" report wrong
says "gradients were never synchronised"
