#!/usr/bin/env bash
# Watches real trainers, healthy and with a planted fault: real_trainers.sh LOCKSTEP SOURCES
#
# Installs them below the user's cache (5 GB), unless they are there. Exits with 77 if they cannot be
# installed.
set -uo pipefail
lockstep=$1 sources=$2
source "$sources/tests/watch/environments.sh"
environment=$(trainers_environment) || exit 77
python=$environment/bin/python
"$python" -m pip list 2>/dev/null | grep -Ei '^(torch|transformers|accelerate|trl|lightning|deepspeed) '

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMP_NUM_THREADS=1 DS_ACCELERATOR=cpu
failures=0
watch() {  # STATUS WORDS-IN-THE-REPORT TRAINER [VARIABLE=VALUE...]
  local status=$1 words=$2 trainer=$3 run=$folder/run found
  shift 3
  rm -rf "$run"
  env "$@" "$lockstep" watch ${options:-} --out "$run" -- "$python" -m torch.distributed.run --standalone \
    --nproc-per-node "${ranks:-2}" "$sources/tests/watch/trainers.py" "$trainer" >"$folder/log" 2>&1
  found=$?
  if [[ $found == "$status" ]] && tr -s '\n ' ' ' <"$folder/log" | grep -q "$words"; then
    echo "${options:-} $trainer $*: as expected"
  else
    echo "$trainer $*: status $found instead of $status, or not '$words':"
    tail -n 40 "$folder/log"
    failures=$((failures + 1))
  fi
}
both() {  # TRAINER [VARIABLE=VALUE...]
  watch 0 "in lockstep: 28 of" "$@" HEALTHY=1
  watch 1 "ranks differ from step 3 on" "$@" FAULT=1
}
both transformers_ddp
both accelerate_ddp
both accelerate_fsdp1
ranks=4 both accelerate_fsdp2
ranks=4 both transformers_fsdp2
watch 0 "recorded: " accelerate_fsdp2_of_parts
both lightning_ddp
watch 0 "reduced the metric one to 1.16667 after step .*, and the mean of what the ranks have is 1 " lightning_ddp UNEVEN=1
both trl_sft
both deepspeed_zero ZERO=1
both deepspeed_zero ZERO=2
options=--modules both transformers_ddp
options=--modules both lightning_ddp
options=--modules both deepspeed_zero ZERO=2
watch 0 "recorded: " deepspeed_zero ZERO=3
exit $((failures > 0))
