#!/usr/bin/env bash
# The step `Run` of action.yml: watches LOCKSTEP_WATCH, validates by LOCKSTEP_VALIDATE or runs LOCKSTEP_RUN, and
# exits with lockstep's status. Its outputs are `folder`, the folder of the run, `left_out`, what its artifact lacks,
# `comment`, when to comment, and `status`.
set -uo pipefail
formats=github,html,junit,markdown,summary

fail() { echo "::error title=Lockstep::$*"; exit 64; }
wishes=0
for wish in "${LOCKSTEP_WATCH:-}" "${LOCKSTEP_VALIDATE:-}" "${LOCKSTEP_RUN:-}"; do
  if [[ -n $wish ]]; then wishes=$((wishes + 1)); fi
done
if ((wishes != 1)); then fail "The action needs one of its inputs 'watch', 'validate' and 'run'."; fi
if [[ -n ${LOCKSTEP_VALIDATE:-} && -z ${LOCKSTEP_REFERENCE:-} ]]; then
  fail "The input 'validate' needs 'reference', the command that trains right."
fi

# Inputs are words of a shell, as a user would type them.
words() { eval "arguments=($1)"; }

# In an environment of its own, so that the job's stays as it is. It sees the system's packages: the
# catalogue's wheel may use the torch that is there.
install_wheel() {
  local environment
  words "$LOCKSTEP_WHEEL" || fail "The input 'wheel' is no list of words of a shell."
  environment=$(mktemp -d "${RUNNER_TEMP:-/tmp}/lockstep-wheel.XXXXXX")
  python3 -m venv --system-site-packages "$environment" ||
    fail "A virtual environment cannot be made (above), so the input 'wheel' cannot be installed."
  "$environment/bin/python" -m pip install --quiet --disable-pip-version-check "${arguments[@]}" ||
    fail "pip could not install the input 'wheel', ${arguments[*]}; its message is above."
  program=$environment/bin/lockstep
}

# The commits before and after the fix, as A..B. A checkout of actions/checkout has one commit alone.
range_of_fix() {
  range=${LOCKSTEP_RANGE:-}
  if [[ -z $range ]]; then
    range=$(python3 -c 'import json, os
pull = json.load(open(os.environ["GITHUB_EVENT_PATH"]))["pull_request"]
print(pull["base"]["sha"] + ".." + pull["head"]["sha"])' 2>/dev/null) ||
      fail "This event is no pull request: give the input 'range', such as 'main..fix'."
  fi
  local commit
  for commit in "${range%%..*}" "${range##*..}"; do
    git rev-parse --quiet --verify "$commit^{commit}" >/dev/null ||
      git fetch --quiet --no-tags --depth 1 origin "$commit" ||
      fail "git can't fetch $commit: check out with 'fetch-depth: 0'."
  done
}

program=${LOCKSTEP_PROGRAM:-lockstep}
if [[ -n ${LOCKSTEP_WHEEL:-} ]]; then install_wheel; fi
command -v "$program" >/dev/null ||
  fail "There is no program '$program': give the input 'wheel', or install Lockstep in an earlier step."

[[ ${LOCKSTEP_VALUES:-false} =~ ^(true|false)$ ]] || fail "The input 'values' is neither 'true' nor 'false'."

if [[ -n ${LOCKSTEP_VALIDATE:-} ]]; then range_of_fix; fi

# A name for each use of the action in a job: a run's folder must be new or empty.
folder=$(mktemp -d "${RUNNER_TEMP:-/tmp}/lockstep.XXXXXX")/run
echo "folder=$folder" >>"$GITHUB_OUTPUT"
comment=${LOCKSTEP_COMMENT:-findings}
if [[ -n ${LOCKSTEP_VALIDATE:-} && $comment == findings ]]; then comment=always; fi
echo "comment=$comment" >>"$GITHUB_OUTPUT"
# Whoever may read the repository may fetch the artifact. A pattern of actions/upload-artifact.
if [[ ${LOCKSTEP_VALUES:-false} != true ]]; then
  echo "left_out=!$folder/**/*.safetensors" >>"$GITHUB_OUTPUT"
fi

words "${LOCKSTEP_OPTIONS:-}" || fail "The input 'options' is no list of words of a shell."
options=("${arguments[@]}")
status=0
if [[ -n ${LOCKSTEP_WATCH:-} ]]; then
  "$program" watch --label "${LOCKSTEP_NAME:-lockstep}" --format $formats "${options[@]}" --out "$folder" \
    -- bash -c "$LOCKSTEP_WATCH" || status=$?
elif [[ -n ${LOCKSTEP_VALIDATE:-} ]]; then
  "$program" validate "$range" --reference "$LOCKSTEP_REFERENCE" --format $formats "${options[@]}" \
    --out "$folder" -- bash -c "$LOCKSTEP_VALIDATE" || status=$?
else
  words "$LOCKSTEP_RUN" || fail "The input 'run' is no list of words of a shell."
  "$program" run "${arguments[@]}" --format $formats "${options[@]}" --out "$folder" || status=$?
fi
echo "status=$status" >>"$GITHUB_OUTPUT"
exit "$status"
