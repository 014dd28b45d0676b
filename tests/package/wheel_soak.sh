#!/usr/bin/env bash
# Builds the wheels, uses them, also as README.md says, and watches the trainings of tests/watch with the library.
#
#   wheel_soak.sh WATCH_TESTS PYTHON     PYTHON: with torch
set -euo pipefail
tests=$1
python=$2
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
ci/wheel
tests/docs/commands_test.py --slow --wheel build/wheel/lockstep_watch-*.whl "$(dirname "$tests")/lockstep" "$python"
ci/wheel catalogue
/usr/bin/python3 tests/ci/multi_gpu_test.py build/wheel "$python"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m zipfile -e build/wheel/lockstep_watch-*.whl "$folder"
LOCKSTEP_TEST_WATCH_LIBRARY=$folder/lockstep/lib/lockstep/liblockstep_watch.so "$tests" \
  --gtest_filter='*Watched*-*Random*'
