#!/usr/bin/env bash
# Installs a wheel in fresh virtual environments, in a folder with a space and an umlaut, and uses it there
# without a compiler, CMake or any variable of the caller: the program, the module, the trainer of
# examples/loss_on_unwrapped_module, and removal.
#
#   wheel_test.sh WHEEL [PYTHON...]     PYTHON: with a torch; otherwise those below the user's cache
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/package_checks.sh"
wheel=$(cd "$OLDPWD" && realpath "$1")
shift
pythons=("$@")
cache=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep
if [[ $# -eq 0 ]]; then
  for python in "$cache"/{venv-*,watch-torch-*}/bin/python; do
    [[ ! -x $python ]] || pythons+=("$python")
  done
fi
sources=$here/../..
train=$sources/examples/loss_on_unwrapped_module/train.py

place="$folder/Büro 2"
venv=$place/venv
mkdir -p "$place/home"

# COMMAND... with the environment's programs alone.
rights=()  # a command that takes rights away
alone() { "${rights[@]}" env -i PATH="$venv/bin" HOME="$place/home" LANG=C.UTF-8 "$@"; }

# PYTHON
new_environment() {
  rm -rf "$venv"
  "$1" -m venv "$venv"
}

install() { run 0 "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-index "$wheel"; }

check_files() {
  local unpacked=$folder/unpacked file newest needed declared
  mkdir "$unpacked"
  python3 -m zipfile -e "$wheel" "$unpacked"
  for file in bin/lockstep lib/lockstep/liblockstep_watch.so; do
    file=$unpacked/lockstep/$file
    needed=$(readelf -d "$file" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | tr '\n' ' ')
    newest=$(objdump -T "$file" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
    echo "${file##*/}: needs $newest of $needed"
    [[ $(printf '%s\n' "$newest" GLIBC_2.28 | sort -V | tail -n 1) == GLIBC_2.28 ]] ||
      fail "$file needs $newest"
    # All of them are parts of the C library.
    ! tr ' ' '\n' <<<"$needed" | grep -vxE '|lib(c|m|dl|rt|pthread)\.so\.[0-9]|ld-linux-x86-64\.so\.2' ||
      fail "$file needs more than the C library"
    ! readelf -d "$file" | grep -E 'RPATH|RUNPATH' || fail "$file has a path of the machine that built it"
  done
  python3 "$sources/tests/package/hardening_test.py" "$unpacked/lockstep/bin/lockstep" "$file" ||
    fail "a file of the wheel is not hardened"
  declared=$(grep -c '^LOCKSTEP_WATCH_API' "$sources/harness/watch/lockstep_watch.h")
  objdump -T "$file" | grep -v '\*UND\*' | sed -n 's/^[0-9a-f]\{16\} .* //p' >exported
  [[ $(grep -c '^lockstep_watch_' exported) -eq $declared && $(wc -l <exported) -eq $declared ]] ||
    fail "the library exports: $(tr '\n' ' ' <exported)"
}

check_program() {
  run 0 alone lockstep --version
  says "no catalogue"
  run 0 alone python -m lockstep --version
  run 64 alone lockstep
  run 64 alone python -m lockstep report none
  says "lockstep: "
  run 1 alone lockstep run loss-on-unwrapped-module
  says "'pip install lockstep-watch[catalogue]' installs it"
  run 0 alone lockstep doctor --timeout 5
  run 0 alone lockstep explain gradients-differ
  run 0 alone python -c 'import lockstep; lockstep.watch(out="in-code"); lockstep.stop()'
  run 2 alone lockstep report in-code
  says "NOTHING OBSERVED"
  run 0 alone lockstep pack in-code --out in-code.tar.gz
  run 2 alone lockstep report in-code.tar.gz --format junit
  rm -r in-code in-code.tar.gz
}

# NAME, PYTHON, STATUS, WANTED KIND, ARGUMENTS of the trainer
watch() {
  local name=$1 python=$2 status=$3 kind=$4
  shift 4
  run "$status" alone lockstep watch --out "$place/$name" --format summary -- "$python" -m torch.distributed.run \
    --standalone --nproc-per-node 2 "$train" "$@"
  python3 - "$place/$name/summary.json" "$kind" <<'END' || fail "$name: another finding than '$kind'"
import json, sys
job = json.load(open(sys.argv[1]))["jobs"][0]
sys.exit(([finding["kind"] for finding in job["findings"]] or [""])[0] != sys.argv[2])
END
}

check_read_only() {  # PYTHON
  chmod -R a-w "$venv" "$place/home"
  # Root may otherwise write everywhere.
  [[ $EUID -ne 0 ]] || rights=(setpriv --inh-caps=-all --bounding-set=-all)
  ! "${rights[@]}" touch "$venv/lib/new" 2>/dev/null || fail "the environment is not read-only"
  watch read-only "$1" 1 gradients-differ
  run 0 alone python -c 'import lockstep; lockstep.watch(out="read-only-in-code"); lockstep.stop()'
  rights=()
  chmod -R u+w "$venv" "$place/home"
}

check_removal() {
  run 0 "$venv/bin/python" -m pip uninstall --quiet --yes lockstep-watch
  (cd "$venv" && find . -iname '*lockstep*') >left
  [[ ! -s left ]] || fail "removal leaves: $(cat left)"
}

check_files
for version in 9 10 11 12 13 14; do
  python3.$version -c '' 2>/dev/null || continue
  new_environment python3.$version
  install
  check_program
  echo "Python 3.$version: works"
done
[[ ${#pythons[@]} -gt 0 ]] || { echo "no Python with torch: no job was watched"; exit; }
for python in "${pythons[@]}"; do
  new_environment "$python"
  "$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
    >"$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch.pth"
  begin=$(date +%s%N)
  install
  name=job-$(basename "$(dirname "$(dirname "$python")")")
  watch "$name" python 1 gradients-differ
  echo "$("$python" -c 'import torch; print("torch", torch.__version__)' 2>/dev/null):" \
    "installed and the first verdict in $((($(date +%s%N) - begin) / 1000000)) ms"
  watch "$name-fixed" python 0 '' --fixed
done
# The job's Python may be another one than that of the wheel.
new_environment python3
install
watch other-python "${pythons[0]}" 1 gradients-differ
check_read_only "${pythons[0]}"
check_removal
