#!/usr/bin/env bash
# The step `Run` of action.yml: watches LOCKSTEP_WATCH or runs LOCKSTEP_RUN, and exits with lockstep's
# status. Its outputs are `folder`, the folder of the run, `left_out`, what its artifact lacks, and `status`.
set -uo pipefail
formats=github,html,junit,markdown,summary

fail() { echo "::error title=Lockstep::$*"; exit 64; }
if [[ -n ${LOCKSTEP_WATCH:-} && -n ${LOCKSTEP_RUN:-} || -z ${LOCKSTEP_WATCH:-}${LOCKSTEP_RUN:-} ]]; then
  fail "The action needs one of its inputs 'watch' and 'run'."
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

program=${LOCKSTEP_PROGRAM:-lockstep}
if [[ -n ${LOCKSTEP_WHEEL:-} ]]; then install_wheel; fi
command -v "$program" >/dev/null ||
  fail "There is no program '$program': give the input 'wheel', or install Lockstep in an earlier step."

[[ ${LOCKSTEP_VALUES:-false} =~ ^(true|false)$ ]] || fail "The input 'values' is neither 'true' nor 'false'."

# A name for each use of the action in a job: a run's folder must be new or empty.
folder=$(mktemp -d "${RUNNER_TEMP:-/tmp}/lockstep.XXXXXX")/run
echo "folder=$folder" >>"$GITHUB_OUTPUT"
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
else
  words "$LOCKSTEP_RUN" || fail "The input 'run' is no list of words of a shell."
  "$program" run "${arguments[@]}" --format $formats "${options[@]}" --out "$folder" || status=$?
fi
echo "status=$status" >>"$GITHUB_OUTPUT"
exit "$status"
