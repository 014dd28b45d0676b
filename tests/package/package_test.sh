#!/usr/bin/env bash
# Installs a build and moves it. Runs the installed program there, then builds and runs a project that
# finds it with find_package(lockstep).
#
#   package_test.sh CMAKE BUILD PYTHON
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/package_checks.sh"
cmake=$1
build=$2
python=$3
prefix=$folder/prefix
project=$folder/project

run 0 "$cmake" --install "$build" --prefix "$folder/first"
mv "$folder/first" "$prefix"
cp -r "$here" "$project"

# With the manual and the completions.
for page in lockstep lockstep-run lockstep-watch; do
  [[ -s $prefix/share/man/man1/$page.1 ]] || fail "there is no page $page"
done
[[ -s $prefix/share/zsh/site-functions/_lockstep ]] || fail "there are no completions for zsh"
source "$prefix/share/bash-completion/completions/lockstep"
[[ $(complete -p lockstep) == *_lockstep* ]] || fail "there are no completions for bash"

# The installed program meets its installed tables, and no longer does after a change of one digit.
lockstep_run=("$prefix/bin/lockstep" run loss-on-unwrapped-module --ranks 2 --steps 5 --format json)
run 0 "${lockstep_run[@]}" --out met
grep -q '"opentslm-49-drift"' met/report.json || fail "no table was promised"
sed -i 's/0\.050678/0.050679/' "$prefix/share/lockstep/published/opentslm-49-drift.csv"
run 1 "${lockstep_run[@]}" --out not-met

unset LOCKSTEP_PYTHON LOCKSTEP_CATALOGUE
run 0 configure built -DLOCKSTEP_PYTHON="$python"
run 0 "$cmake" --build built
run 0 built/scenarios/outside list --format json
[[ $(grep -c '"id":' output) -eq 1 ]] || fail "the program has more scenarios than its own"
run 0 built/scenarios/outside list --help
says "Usage: outside list"
run 0 built/scenarios/outside show summed-gradient
says "Source: scenarios/scale/summed_gradient.cc"
run 0 built/scenarios/outside run --ranks 2 -vv --out outside-run
says "scenarios/scale/summed_gradient.cc:"
says "2: summed over 2 ranks, never averaged"

# `lockstep` runs them, too; the core of the package judges them without torch.
LOCKSTEP_CATALOGUE=built/scenarios/outside run 0 "$prefix/bin/lockstep" list --format json
[[ $(grep -c '"id":' output) -eq 1 ]] || fail "lockstep has more scenarios than its catalogue"
project=$here/core run 0 configure core -DLOCKSTEP_PYTHON=/nowhere/python
run 0 "$cmake" --build core
run 0 core/reader outside-run
says "cells are as expected"

touch "$project/scenarios/stray.cc"
run 1 "$cmake" --build built
says "scenarios/CMakeLists.txt: stray.cc is not listed: add stray"
rm "$project/scenarios/stray.cc"
mv "$project/scenarios/scale/summed_gradient.cc" away.cc
run 1 "$cmake" --build built
says "scale/summed_gradient.cc is listed, and there is no such file"
mv away.cc "$project/scenarios/scale/summed_gradient.cc"

# The installed headers are used, and each of them is needed.
rm "$prefix/include/lockstep/harness/observe/observer.h"
run 1 "$cmake" --build built
says "harness/observe/observer.h"

# A torch of another version, an incomplete one, and a missing Python.
torch=$folder/other/torch
mkdir -p "$torch"/lib "$torch"/include/torch/csrc/distributed/c10d
touch "$torch"/{__init__.py,lib/libtorch_cpu.so,lib/libc10.so}
touch "$torch"/include/torch/csrc/distributed/c10d/reducer.hpp
echo "__version__ = '2.99.0'" >"$torch/version.py"
export PYTHONPATH=$folder/other
run 1 configure other -DLOCKSTEP_PYTHON="$python"
says "torch of $python is 2.99.0; this Lockstep was built with"
rm "$torch/lib/libc10.so"
run 1 configure incomplete -DLOCKSTEP_PYTHON="$python"
says "is not complete: lib/libc10.so is missing. Set LOCKSTEP_PYTHON to a Python whose torch is"
run 1 configure none -DLOCKSTEP_PYTHON="$folder/none"
says "There is no Python interpreter at $folder/none"
