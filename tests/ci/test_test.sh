#!/usr/bin/env bash
# ci/test fails if a build or a test of any preset does, whatever it prints afterwards.
#
#   tests/ci/test_test.sh
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/ci" "$folder/bin"
cp "$root"/ci/{test,label-times,shares.csv} "$folder/ci"
printf '#!/bin/sh\n' >"$folder/ci/bootstrap"
printf '#!/bin/sh\n[ "$1" != "$FAILING_BUILD" ]\n' >"$folder/ci/build"
cat >"$folder/bin/ctest" <<'EOF'
#!/bin/sh
echo "100% tests passed, 0 tests failed out of 1"
echo "unit = 3.00 sec*proc (1 test)"
[ "$2" != "$FAILING_TESTS" ]
EOF
chmod +x "$folder"/ci/* "$folder"/bin/*
export PATH=$folder/bin:$PATH TMPDIR=$folder

# expect STATUS FAILING_BUILD FAILING_TESTS TEXT...
expect() {
  local status=0
  FAILING_BUILD=$2 FAILING_TESTS=$3 "$folder/ci/test" >"$folder/output" 2>&1 || status=$?
  [[ $status -eq $1 ]] || { echo "build '$2', tests '$3': status $status"; cat "$folder/output"; exit 1; }
  for text in "${@:4}"; do
    grep -qF -- "$text" "$folder/output" || { echo "no '$text' in:"; cat "$folder/output"; exit 1; }
  done
}

expect 0 none none 'asan: build ' 'tsan: tests ' 'release: tests ' 'release: 100% tests passed'
for preset in asan tsan release; do
  expect 1 none $preset 'release: tests '
  expect 1 $preset none
done
expect 1 asan none 'asan: build failed'
! grep -q '^asan: 100%' "$folder/output" || { echo "an earlier run's tests are told"; exit 1; }
