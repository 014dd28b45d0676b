#!/usr/bin/env bash
# Builds the two images of ci/Dockerfile, and uses them as a user without a name: the small one watches a job
# whose command is not there, the one with the catalogue runs a scenario and watches two ranks.
#
#   images_test.sh CHECKOUT [OPTION...]      of `buildah build`
#
# Exits 77 with a reason where there is no buildah.
set -euo pipefail
checkout=$1
options=("${@:2}")

command -v buildah >/dev/null || { echo "images_test: skipped: there is no buildah" >&2; exit 77; }
fail() { echo "images_test: $*" >&2; exit 1; }

folder=$(mktemp -d)
containers=()
end() {
  ((${#containers[@]} == 0)) || buildah rm "${containers[@]}" >/dev/null
  rm -rf "$folder"
}
trap end EXIT

git clone --quiet "$checkout" "$folder/context"

# Makes a container of a target of the Dockerfile: sets `container`.
make_container() {
  buildah build "${options[@]}" --layers -f "$folder/context/ci/Dockerfile" --target "$1" -t "lockstep-test-$1" \
    "$folder/context" >"$folder/$1.log" 2>&1 || { tail -n 30 "$folder/$1.log" >&2; fail "$1 was not built"; }
  container=$(buildah from --pull-never "lockstep-test-$1")
  containers+=("$container")
}

# Runs a command in the container: sets `printed`.
run() {
  printed=$(buildah run --user 12345 "$container" -- "$@" 2>&1) || fail "'$*' ended with $?: $printed"
}

# The same for one that must fail.
run_in_vain() {
  ! printed=$(buildah run --user 12345 "$container" -- "$@" 2>&1) || fail "'$*' did not fail: $printed"
}

expect() {  # TEXT in what was printed
  grep -qF -- "$1" <<<"$printed" || fail "expected '$1', found: $printed"
}

make_container watch
run lockstep --version
expect "lockstep "
run_in_vain lockstep watch --out /tmp/run -- no-such-program
expect "cannot start 'no-such-program'"
run_in_vain lockstep run
expect "lockstep-watch[catalogue]"

make_container catalogue
run lockstep run loss-on-unwrapped-module --ranks 2 --out /tmp/catalogue
expect "as expected"
cat >"$folder/train.py" <<'END'
import torch, torch.distributed as dist
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(2, 4)).sum().backward()
    optimizer.step()
dist.destroy_process_group()
END
buildah copy --quiet "$container" "$folder/train.py" /tmp/train.py >/dev/null
run lockstep watch --out /tmp/run -- torchrun --nproc-per-node 2 /tmp/train.py
expect "in lockstep"
echo "images_test: both images are built and work"
