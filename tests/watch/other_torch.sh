#!/usr/bin/env bash
# Watches the trainings of this folder in a Python environment with another torch, by the same library.
#
#   other_torch.sh WATCH_TESTS VERSION     2.6.0, or `newest`
#
# Exits with 77 if that torch cannot be installed (ci/torch-environment).
set -euo pipefail
python=$("$(dirname "${BASH_SOURCE[0]}")/../../ci/torch-environment" "$2") || exit 77
"$python" -c 'import torch; print("torch", torch.__version__)' 2>/dev/null
LOCKSTEP_TEST_PYTHON=$python "$1"
