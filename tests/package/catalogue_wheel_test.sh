#!/usr/bin/env bash
# Installs the wheels `lockstep-watch` and `lockstep-catalogue` in fresh virtual environments, and runs scenarios
# there without a compiler or any variable of the caller.
#
#   catalogue_wheel_test.sh FOLDER PYTHON     FOLDER: with both wheels; PYTHON: with a torch of the catalogue's release
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/package_checks.sh"
wheels=$(cd "$OLDPWD" && realpath "$1")
python=$2
place="$folder/Büro 2"
venv=$place/venv
mkdir -p "$place/home"
cd "$place"

alone() { env -i PATH="$venv/bin" HOME="$place/home" LANG=C.UTF-8 "$@"; }
packages_of() { "$1" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }
pip() { "$venv/bin/python" -m pip --quiet --disable-pip-version-check "$@"; }

# PYTHON: a fresh environment that has its packages
new_environment() {
  rm -rf "$venv"
  "$1" -m venv "$venv"
  packages_of "$1" >"$(packages_of "$venv/bin/python")/torch.pth"
}

# NEEDED libraries of the catalogue are torch's, or those that every system for the wheel's platform has.
check_files() {  # WHEEL
  local unpacked=$folder/unpacked file needed
  mkdir "$unpacked"
  python3 -m zipfile -e "$1" "$unpacked"
  grep -qx "Requires-Dist: torch==$release.\*" "$unpacked"/*.dist-info/METADATA || fail "the wheel does not name its torch"
  while read -r file; do
    needed=$(readelf -d "$file" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | tr '\n' ' ')
    echo "${file##*/}: $(stat -c %s "$file") bytes; needs $needed"
    ! tr ' ' '\n' <<<"$needed" |
      grep -vxE '|lib(torch_cpu|torch_cuda|c10|c10_cuda)\.so|lib(c|m|gcc_s|stdc\+\+)\.so\.[0-9]|ld-linux-x86-64\.so\.2' ||
      fail "$file needs a library that is neither torch's nor every system's"
    readelf -d "$file" | grep -E 'RPATH|RUNPATH' | grep -qF '[$ORIGIN/../../../torch/lib]' ||
      fail "$file looks for torch elsewhere: $(readelf -d "$file" | grep -E 'RPATH|RUNPATH')"
  done < <(find "$unpacked" -type f \( -name lockstep-catalogue -o -name '*.so' \))
}

check_scenarios() {
  run 0 alone lockstep --version
  says ", torch $release."
  run 0 alone lockstep list
  says "loss-on-unwrapped-module"
  run 0 alone lockstep run 'loss*' --ranks 2 --out "$1"
  says "Everything is as expected"
  says "loss-on-unwrapped-module 12 7 of 7"
  run 0 alone lockstep report "$1"
  rm -rf "$1"
}

catalogues=("$wheels"/lockstep_catalogue-*.whl)
version=$("$python" -c 'import importlib.metadata; print(importlib.metadata.version("torch"))')
release=$(cut -d. -f1,2 <<<"$version")
catalogue=$(printf '%s\n' "${catalogues[@]}" | grep -F "+torch$release-") || fail "no catalogue for torch $release in $wheels"
check_files "$catalogue"

# One command installs both, with the torch that is there, in a folder of its own.
new_environment "$python"
pip install --no-index --find-links "$wheels" 'lockstep-watch[catalogue]'
check_scenarios elsewhere
run 0 alone lockstep doctor --timeout 5
says "'lockstep run' can work here"
run 0 alone python -m lockstep show loss-on-unwrapped-module
run 64 alone lockstep run 'loss*' --ranks 2 --backend mpi --out mpi
says "mpirun"

# torch as pip installs it, next to Lockstep: without Python's word, too.
packages=$(packages_of "$venv/bin/python")
rm "$packages/torch.pth"
for part in torch nvidia; do
  [[ ! -e $(packages_of "$python")/$part ]] || ln -s "$(packages_of "$python")/$part" "$packages/$part"
done
check_scenarios beside
run 0 alone "$packages/lockstep/bin/lockstep" run 'loss*/bypass' --ranks 2 --out direct

# Without torch, and with that of another release.
rm "$packages/torch"
run 1 alone lockstep list
says "torch cannot be read: $packages/torch/lib/libtorch_cpu.so: No such file or directory. Install torch $release there"
mkdir -p "$packages/torch/lib"
touch "$packages"/torch/{__init__.py,lib/libtorch_cpu.so}
echo "__version__ = '2.99.0'" >"$packages/torch/version.py"
run 1 alone lockstep run 'loss*' --ranks 2
says "was built for torch $release, but the torch in $packages/torch is 2.99.0. Install torch $release"
run 1 alone lockstep doctor --timeout 5
says "'lockstep run' cannot work here"
run 0 alone lockstep explain gradients-differ

# Removal of the catalogue leaves the rest.
pip uninstall --yes lockstep-catalogue
run 1 alone lockstep run 'loss*' --ranks 2
says "'pip install lockstep-watch[catalogue]' installs it"
pip uninstall --yes lockstep-watch
(cd "$venv" && find . -iname '*lockstep*') >left
[[ ! -s left ]] || fail "removal leaves: $(cat left)"

# pip does not install it next to another torch.
mkdir "$packages/torch-2.99.0.dist-info"
printf 'Metadata-Version: 2.1\nName: torch\nVersion: 2.99.0\n' >"$packages/torch-2.99.0.dist-info/METADATA"
run 1 pip install --no-index --find-links "$wheels" 'lockstep-watch[catalogue]'
says "torch==$release"
echo "torch $version: runs scenarios"
