#!/usr/bin/env bash
# Watches the trainings of this folder in a Python environment with another torch, by the same library.
#
#   other_torch.sh WATCH_TESTS VERSION     2.6.0, or `newest`
#
# Installs it below the user's cache (5 GB), unless an environment with it is there. Exits with 77 if it
# cannot be installed.
set -euo pipefail
tests=$1 version=$2
environment=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep/watch-torch-$version
if [[ ! -e $environment/installed ]]; then
  rm -rf "$environment"
  python3 -m venv "$environment"
  wanted=torch==$version
  [[ $version != newest ]] || wanted=torch
  "$environment/bin/pip" install --quiet "$wanted" ||
    { echo "torch $version cannot be installed here"; exit 77; }
  touch "$environment/installed"
fi
"$environment/bin/python" -c 'import torch; print("torch", torch.__version__)' 2>/dev/null
LOCKSTEP_TEST_PYTHON=$environment/bin/python "$tests"
