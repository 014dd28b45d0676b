#!/usr/bin/env bash
# Validates fixes of real libraries, by two releases or by two ways to use one: upstream_fixes.sh LOCKSTEP SOURCES
#
# Installs pinned releases below the user's cache, unless they are there. Exits with 77 if they cannot be installed.
set -uo pipefail
lockstep=$1 sources=$2
source "$sources/tests/watch/environments.sh"
trainers=$(trainers_environment) || exit 77
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMP_NUM_THREADS=1 DS_ACCELERATOR=cpu CUDA_VISIBLE_DEVICES=
failures=0

expect() {  # NAME STATUS ANSWER OPTION... -- ARGUMENT...
  local name=$1 status=$2 answer=$3 run=$folder/run options=() found job=${training:-train.py}
  shift 3
  while [[ $1 != -- ]]; do options+=("$1"); shift; done
  shift
  rm -rf "$run"
  "$lockstep" validate --out "$run" "${options[@]}" --reference "python $job ${1-}" \
    -- python -m torch.distributed.run --standalone --nproc-per-node "${ranks:-2}" "$job" "$@" >"$folder/log" 2>&1
  found=$?
  if [[ $found == "$status" ]] && tr -s '\n ' ' ' <"$folder/log" | grep -qF "$answer"; then
    echo "$name: as expected"
    grep -E -A 2 '^(FIXED|STILL|NEW|NOT|equal)' "$folder/log" | tail -n 3
  else
    echo "$name: status $found instead of $status, or not '$answer':"
    tail -n 40 "$folder/log"
    failures=$((failures + 1))
  fi
}
releases() {  # BEFORE AFTER [OTHER==VERSION...]: sets `between`
  local before after
  before=$(environment_with "$1" "${@:3}") && after=$(environment_with "$2" "${@:3}") || exit 77
  between=(--before "$before/bin/python" --after "$after/bin/python")
}
begin() {  # WRAPPING: a folder with the training
  mkdir -p "$folder/here" && cd "$folder/here" && cp "$sources/tests/watch/upstream/train.py" . &&
    cp "$sources/tests/watch/upstream/wrapping_$1.py" wrapping.py
}
repository() {  # a commit for each way to wrap the model, on a branch of its name
  local way
  mkdir -p "$folder/repository" && cd "$folder/repository" || exit 1
  git init --quiet --initial-branch main && cp "$sources/tests/watch/upstream/train.py" .
  for way in ddp static_graph by_hand; do
    [[ $way == ddp ]] || git checkout --quiet -b $way main
    cp "$sources/tests/watch/upstream/wrapping_$way.py" wrapping.py
    git add --all && git -c user.name=Test -c user.email=test@example.org -c commit.gpgsign=false \
      commit --quiet --message "$way"
  done
}
references() {  # what docs/references.md says of each library
  local library
  cd "$sources/examples/validate/references" && cp with_*.py "$folder" && cd "$folder" || exit 1
  PATH=$trainers/bin:$PATH
  for library in torch accelerate transformers lightning; do
    training="with_$library.py" expect "one process with $library" 0 "equal" --
  done
  export PASSES=2
  training=with_transformers.py expect "one process with transformers, two passes" 0 "equal" --
}

releases_of_deepspeed() {
  begin by_hand
  releases deepspeed==0.17.2 deepspeed==0.17.3
  expect "DeepSpeed's TiledMLP with several samples" 0 "FIXED: equal" "${between[@]}" -- deepspeed_tiles
  begin ddp
  releases deepspeed==0.17.3 deepspeed==0.19.8
  expect "DeepSpeed's TiledMLP under DDP" 1 "STILL THERE: B raised an error" "${between[@]}" -- deepspeed_tiles
}

tiles_of_liger() {
  begin ddp
  releases liger-kernel==0.6.4 liger-kernel==0.8.5
  expect "Liger's tiles under DDP" 1 "STILL THERE: B raised an error" "${between[@]}" -- liger_tiles
  repository
  PATH=$cache/upstream/liger-kernel-0.8.5/bin:$PATH
  expect "Liger's tiles, averaged by hand" 0 "FIXED: equal" main..by_hand -- liger_tiles
  expect "Liger's tiles under DDP with a static graph" 0 "FIXED: equal" main..static_graph -- liger_tiles
}

# The older release takes a step in each pass. Then its steps have other samples than those of the reference.
releases_of_accelerate() {
  begin ddp
  releases accelerate==0.30.1 accelerate==0.31.0
  expect "accelerate's sync_each_batch" 2 "NOT SHOWN BEFORE THE FIX: VOID" "${between[@]}" -- accelerate_passes
}

releases_of_transformers() {
  begin ddp
  releases transformers==4.45.2 transformers==4.46.3 accelerate==1.1.1
  ranks=1 expect "two passes of Trainer" 0 "FIXED: equal" "${between[@]}" -- transformers_passes 2
  expect "two ranks of Trainer" 1 "STILL THERE: all 12 gradients" "${between[@]}" -- transformers_passes 1
  releases transformers==4.53.3 transformers==4.54.1 accelerate==1.8.1
  expect "two ranks of a newer Trainer" 0 "FIXED: equal" "${between[@]}" -- transformers_passes 2
}

releases_of_peft() {
  begin ddp
  releases peft==0.5.0 peft==0.6.0 transformers==4.36.2 accelerate==0.30.1 'numpy<2'
  expect "peft's modules_to_save under DDP" 0 "FIXED: equal" "${between[@]}" -- peft_saved_module
}

for part in references releases_of_deepspeed tiles_of_liger releases_of_accelerate releases_of_transformers \
  releases_of_peft; do
  ($part; exit $((failures > 0))) || { [[ $? == 77 ]] && exit 77; failures=1; }
done
exit $((failures > 0))
