#!/usr/bin/env bash
# A torch that is missing or too old: ci/bootstrap and CMake print the remedy and install nothing. The parts of
# CUDA that ci/bootstrap installs are those of torch's own release.
#
#   setup_test.sh CMAKE
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cmake=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
status=0

mkdir -p "$folder/old/torch"
touch "$folder/old/torch/__init__.py"
echo "__version__ = '2.10.0'" >"$folder/old/torch/version.py"
python=$(command -v /usr/bin/python3 || command -v python3)

expect() {  # WANTED TEXT, COMMAND...
  local wanted=$1 output
  shift
  if output=$("$@" 2>&1); then
    printf 'wanted a failure of: %s\n' "$*" >&2
    status=1
  # CMake wraps its messages.
  elif [[ $(tr -s '\n ' ' ' <<<"$output") != *"$wanted"* ]]; then
    printf 'wanted: %s\ngot: %s\n' "$wanted" "$output" >&2
    status=1
  fi
}

configure() { "$cmake" -S "$root" -B "$folder/build" -G Ninja -DLOCKSTEP_PYTHON="$1"; }

export LOCKSTEP_PYTHON=$folder/none
expect "is not an executable file; set it to a Python" "$root/ci/bootstrap"
expect "Run ci/bootstrap, which installs torch" configure "$folder/none"

export LOCKSTEP_PYTHON=$python
export PYTHONPATH=$folder/old
expect "is 2.10.0, older than 2.11" "$root/ci/bootstrap"
expect "is 2.10.0, older than 2.11" configure "$python"
rm -r "$folder/old/torch"
export PYTHONPATH=$folder/empty
if ! "$python" -c 'import torch' 2>/dev/null; then
  expect "has no torch" "$root/ci/bootstrap"
  expect "has no torch" configure "$python"
fi

requires() {  # WANTED, the requirement of a torch
  mkdir -p "$folder/cuda/torch-9.dist-info"
  printf 'Metadata-Version: 2.1\nName: torch\nVersion: 9\nRequires-Dist: %s\n' "$2" \
    >"$folder/cuda/torch-9.dist-info/METADATA"
  local output
  output=$(PYTHONPATH=$folder/cuda "$python" "$root/ci/cuda-of-torch" cccl,crt 2>&1) || true
  [[ $output == "$1" ]] || { printf 'wanted: %s\ngot: %s\n' "$1" "$output" >&2; status=1; }
}
requires 'cuda-toolkit[cccl,crt]==13.0.2' \
  'cuda-toolkit[cublas,cudart]==13.0.2; platform_system == "Linux"'
requires '' 'nvidia-cuda-runtime-cu12==12.4.127; platform_system == "Linux"'
exit $status
