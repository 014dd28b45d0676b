#!/usr/bin/env bash
# Builds liblockstep_watch for old C libraries by Zig, and watches the trainings of this folder with it.
#
#   portable_library.sh SOURCES WATCH_TESTS
#
# Installs Zig below the user's cache (440 MB), unless it is there. Exits with 77 if it cannot be installed.
set -euo pipefail
sources=$1 tests=$2
environment=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep/zig
if [[ ! -e $environment/installed ]]; then
  rm -rf "$environment"
  python3 -m venv "$environment"
  "$environment/bin/pip" install --quiet ziglang || { echo "Zig cannot be installed here"; exit 77; }
  touch "$environment/installed"
fi
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
cmake -S "$sources" -B "$build" -G Ninja -DLOCKSTEP_TORCH=OFF -DBUILD_TESTING=OFF \
  "-DLOCKSTEP_ZIG=$environment/bin/python;-m;ziglang" >"$build/log" || { cat "$build/log"; exit 1; }
cmake --build "$build" --target lockstep_watch_portable
library=$build/portable/liblockstep_watch.so
newest=$(objdump -T "$library" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
echo "needs $newest"
[[ $(printf '%s\n' "$newest" GLIBC_2.28 | sort -V | tail -n 1) == GLIBC_2.28 ]]
declared=$(grep -c '^LOCKSTEP_WATCH_API' "$sources/harness/watch/lockstep_watch.h")
[[ $(objdump -T "$library" | grep -v '\*UND\*' | grep -c ' lockstep_watch_') == "$declared" ]]
LOCKSTEP_TEST_WATCH_LIBRARY=$library "$tests" --gtest_filter='*Watched*-*Random*'
