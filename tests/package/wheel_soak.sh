#!/usr/bin/env bash
# Builds the wheel, uses it, and watches the trainings of tests/watch with its library.
#
#   wheel_soak.sh WATCH_TESTS
set -euo pipefail
tests=$1
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
ci/wheel
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m zipfile -e build/wheel/*.whl "$folder"
LOCKSTEP_TEST_WATCH_LIBRARY=$folder/lockstep/lib/lockstep/liblockstep_watch.so "$tests" \
  --gtest_filter='*Watched*-*Random*'
