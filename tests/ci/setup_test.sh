#!/usr/bin/env bash
# A torch that is missing or too old: ci/bootstrap and CMake print the remedy and install nothing. ci/bootstrap
# and ci/wheel take no file of pip's whose hash is not in ci/requirements-*.txt. The parts of CUDA that
# ci/torch-environment installs are those of torch's own release.
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

pinned=$(sed -n 's/^set(LOCKSTEP_TORCH_PINNED \(.*\))$/\1/p' "$root/harness/torch.cmake")
requirements=$root/ci/requirements-torch.txt

# Other files under the names of the right ones, on a machine that has every Debian package.
plant_other_files() {  # FOLDER, REQUIREMENTS...
  "$python" - "$@" <<'END'
import pathlib, re, sys, zipfile
texts = "".join(pathlib.Path(name).read_text() for name in sys.argv[2:])
for name, version in re.findall(r"^([\w-]+)==(\S+)", texts, re.MULTILINE):
    name = name.replace("-", "_")
    info = "%s-%s.dist-info/" % (name, version)
    with zipfile.ZipFile("%s/%s-%s-py3-none-any.whl" % (sys.argv[1], name, version), "w") as wheel:
        wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: %s\nVersion: %s\n" % (name, version))
        wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(info + "RECORD", "")
END
}
mkdir -p "$folder/bin" "$folder/index"
cat >"$folder/bin/dpkg-query" <<'END'
#!/bin/sh
case $3 in
'${Version}') echo 3.25.1 ;;
*) shift 3; printf 'installed %s\n' "$@" ;;
esac
END
chmod +x "$folder/bin/dpkg-query"
plant_other_files "$folder/index" "$root"/ci/requirements-*.txt
with_other_files() {  # COMMAND...
  env -u LOCKSTEP_PYTHON -u PYTHONPATH PATH="$folder/bin:/usr/bin:/bin" XDG_CACHE_HOME="$folder/home" \
    PIP_NO_INDEX=1 PIP_FIND_LINKS="$folder/index" "$@"
}
if /usr/bin/python3 -c 'import ensurepip' 2>/dev/null; then
  expect "DO NOT MATCH THE HASHES" with_other_files "$root/ci/bootstrap" program
  expect "pip could not install the checker of workflows" with_other_files "$root/ci/bootstrap"
  mkdir "$folder/copy"
  cp -r "$root/ci" "$root/harness" "$folder/copy"  # ci/wheel writes into build/wheel
  printf '#!/bin/sh\n' | tee "$folder/bin/"{cmake,ninja,make,dpkg-source,objdump} >/dev/null
  chmod +x "$folder"/bin/*
  [[ $(uname -m) != x86_64 ]] ||
    expect "DO NOT MATCH THE HASHES" with_other_files "$folder/copy/ci/wheel" --build
fi

# Every requirement has a hash, and those that are named elsewhere are there.
if grep -nE '^[a-z].*[^\\]$' "$root"/ci/requirements-*.txt; then
  echo "these requirements have no hash" >&2
  status=1
fi
for one in "torch==$pinned" nvidia-cuda-runtime nvidia-cuda-cupti nvidia-cuda-cccl nvidia-cuda-crt; do
  grep -qE "^$one(==[0-9.]+)? " "$requirements" || { echo "$requirements lacks $one" >&2; status=1; }
done
exit $status
