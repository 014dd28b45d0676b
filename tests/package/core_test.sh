#!/usr/bin/env bash
# Installs a build. Then builds and runs a project that finds its component core and has no torch.
# For a build without torch, also checks the messages of the program and the package.
#
#   core_test.sh CMAKE BUILD HAS_TORCH [FLAGS of the compiler]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/package_checks.sh"
cmake=$1
build=$2
has_torch=$3
flags=${4-}

export LOCKSTEP_PYTHON=/nowhere/python
unset LOCKSTEP_CATALOGUE
run 0 "$cmake" --install "$build" --prefix "$folder/prefix"
lockstep=$folder/prefix/bin/lockstep
run 0 "$lockstep" --help
run 64 "$lockstep" report "$folder/none"
says "there is no such folder"
run 3 "$lockstep" watch --out "$folder/watched" -- true
says "NOTHING OBSERVED"
mv "$folder/prefix/lib/lockstep/liblockstep_watch.so" "$folder/elsewhere.so"
run 64 "$lockstep" watch --out "$folder/unwatched" -- true
says "'watch' needs lib/lockstep/liblockstep_watch.so, which is not there"
[[ ! -e $folder/unwatched ]]
mv "$folder/elsewhere.so" "$folder/prefix/lib/lockstep/liblockstep_watch.so"
# A script finds the library from its package. A Python without a sanitizer cannot load one with it.
if [[ -z $flags ]]; then
  export PYTHONPATH=$folder/prefix/share/lockstep/python
  run 0 python3 -c 'import lockstep; lockstep.watch(out="in-code"); lockstep.stop()'
  run 2 "$lockstep" report in-code
  says "NOTHING OBSERVED"
  run 0 python3 -m lockstep --version
  unset PYTHONPATH
fi

project=$here/core
run 0 configure built -DCMAKE_CXX_FLAGS="$flags"
run 0 "$cmake" --build built
run 1 built/reader "$folder/none"
says "there is no such folder"

# A loop in C that observes itself. It needs neither torch nor a library of the core.
if [[ -z $flags ]]; then
  project=$here/watch
  run 0 configure loop -DCOMPONENT=watch
  run 0 "$cmake" --build loop
  for run in "same 1" "other 2"; do
    read -r name slope <<<"$run"
    run 0 loop/loop "$name" 0 1
    run 0 loop/loop "$name" 1 "$slope"
  done
  run 0 "$lockstep" report same
  says "loop, 2 ranks: in lockstep: 1 of 1 parameters compared on 2 of 2 ranks"
  run 1 "$lockstep" report other
  says "gradients do not agree across ranks: first in step 1, weights"
  run 1 configure nosuch -DCOMPONENT=nosuch
  says "There is no component 'nosuch': there are watch, core and scenarios."
fi

[[ $has_torch == ON ]] && exit
run 1 "$lockstep" list
says "There is no catalogue of scenarios at $folder/prefix/libexec/lockstep/lockstep-catalogue"
run 0 "$lockstep" doctor --timeout 5
says "'lockstep run' was not tested"
project=$here
run 1 configure scenarios -DCOMPONENT=scenarios
says "built without torch (LOCKSTEP_TORCH=OFF), so it has no component 'scenarios'"
run 1 configure other -DCOMPONENT=nosuch
says "There is no component 'nosuch': there are watch, core and scenarios."
