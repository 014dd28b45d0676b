#!/usr/bin/env bash
# Makes the Debian packages of a build, unpacks them into a clean folder, and runs what is there.
#
#   debian_test.sh CPACK BUILD PYTHON
set -euo pipefail
for tool in dpkg-deb dpkg-shlibdeps; do
  command -v $tool >/dev/null || { echo "skipped: there is no $tool"; exit 77; }
done
source "$(dirname "${BASH_SOURCE[0]}")/package_checks.sh"
cpack=$1
build=$2
python=$3
unset LOCKSTEP_CATALOGUE LOCKSTEP_PYTHON

run 0 "$cpack" -G DEB -B "$folder/packages" --config "$build/CPackConfig.cmake"
program=$(echo packages/lockstep_*.deb)
catalogue=$(echo packages/lockstep-catalogue_*.deb)
[[ -f $program && -f $catalogue ]] || fail "wanted two packages, got: $(ls packages)"

field() { dpkg-deb --field "$1" "$2"; }
version=$(field "$program" Version)
[[ $(field "$program" Package) == lockstep && $version =~ ^[0-9.]+$ ]] || fail "$version is no version"
[[ $(field "$program" Architecture) == "$(dpkg --print-architecture)" ]] || fail "another architecture"
[[ $(field "$program" Depends) == *"libc6 (>= "* ]] || fail "it does not depend on the C library"
[[ $(field "$program" Depends) != *torch* ]] || fail "it depends on torch"
[[ $(field "$catalogue" Depends) == "lockstep (= $version), "*libc6* ]] ||
  fail "the catalogue depends on $(field "$catalogue" Depends)"
[[ $(field "$catalogue" Description) == *"needs torch"* ]] || fail "the catalogue does not name its torch"
if command -v lintian >/dev/null; then
  # The search path of the catalogue is that of torch, which is in no package.
  run 0 lintian --fail-on error --allow-root "$program"
  run 0 lintian --fail-on error --allow-root --suppress-tags custom-library-search-path "$catalogue"
fi

root=$folder/clean
dpkg-deb -x "$program" "$root"
lockstep=$root/usr/bin/lockstep
[[ -z $(find "$root" -perm /022 ! -type l) ]] || fail "others may write: $(find "$root" -perm /022 ! -type l)"
[[ ! -e $root/usr/include ]] || fail "headers are in the package of the program"
run 0 "$lockstep" --version
says "lockstep $version, no catalogue"
run 1 "$lockstep" list
says "There is no catalogue of scenarios at $root/usr/libexec/lockstep/lockstep-catalogue"
cp "$here/../docs/train.py" .
run 0 env PATH="$(dirname "$python"):$PATH" "$lockstep" watch --out watched -- torchrun --nproc-per-node 2 train.py
says "in lockstep: 4 of 4 parameters compared on 2 of 2 ranks"
gzip -dc "$root/usr/share/man/man1/lockstep-watch.1.gz" >output
says "LOCKSTEP"
source "$root/usr/share/bash-completion/completions/lockstep"
[[ -s $root/usr/share/zsh/vendor-completions/_lockstep && -s $root/usr/share/doc/lockstep/copyright ]] ||
  fail "a file is missing: $(find "$root" -type f)"

dpkg-deb -x "$catalogue" "$root"
run 0 "$lockstep" run loss-on-unwrapped-module --ranks 2 --out ran
says "Everything is as expected"
run 0 "$lockstep" --version --json
says '"backends":["gloo","mpi_mpich","mpi_openmpi","nccl"]'
