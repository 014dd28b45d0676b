#!/usr/bin/env bash
# Completes command lines in a real bash, zsh or fish: completions_test.sh SHELL PROGRAM [HAS_CATALOGUE]
set -euo pipefail
shell=$1
program=$(realpath "$2")
has_catalogue=${3-ON}
command -v "$shell" >/dev/null || { echo "skipped: there is no $shell"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
ln -s "$program" "$folder/lockstep"
export PATH=$folder:$PATH
cd "$folder"

# complete WORD...: the completions of the last word, sorted, in one line.
in_bash() {
  bash --norc -c '
    source <(lockstep --completion bash)
    read -ra spec <<<"$(complete -p lockstep)"
    [[ "${spec[*]}" == "complete -o default -F _lockstep lockstep" ]] || exit 9
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _lockstep
    printf "%s\n" "${COMPREPLY[@]}"' bash "$@"
}

# Offers of zsh go through compadd; files through _files.
in_zsh() {
  zsh -f -c '
    compdef() { [[ "$*" == "_lockstep lockstep" ]] || exit 9 }
    source <(lockstep --completion zsh)
    _describe() { print -l -- ${(P)2%%:*} }
    _files() { print FILES }
    _normal() { print "COMMAND $words" }
    words=("$@") CURRENT=$#
    _lockstep' zsh "$@"
}

in_fish() {
  fish --no-config -c '
    lockstep --completion fish | source
    complete -C (string join " " -- (string escape -- $argv[1..-2]) $argv[-1]) | string replace -r "\t.*" ""
    true' "$@"  # of `string replace`: 1 if there are no tabs
}

completes() {  # WANTED, WORD...
  local found
  found=$("in_$shell" lockstep "${@:2}" | sort | paste -sd ' ') || { echo "failed: ${*:2}"; exit 1; }
  [[ $found == "$1" ]] || { echo "of '${*:2}' wanted '$1', got '$found'"; exit 1; }
}

if [[ $shell == zsh ]]; then  # from its file, as compinit finds it
  lockstep --completion zsh >_lockstep
  zsh -f -c 'fpath+=($PWD) && autoload -Uz compinit && compinit -u -D && [[ $_comps[lockstep] == _lockstep ]]'
fi
completes "watch" w
completes "json junit" report --format j
completes "buffers,micro-batches buffers,optimizer-state buffers,random-state" watch --also buffers,
completes "opentslm-49-drift opentslm-49-gradients opentslm-49-pipeline" compare open
completes "gradients-clipped-before-reduction gradients-differ gradients-mixed-up" explain gradients
completes "--expect" diff --exp
completes "--timeout" doctor --t
if [[ $shell == bash ]]; then
  completes "html" diff --format = h           # as bash cuts --format=h
  completes "console csv github html json junit keys markdown summary" diff --format =
  completes "" report runs/                    # files, by `-o default`
  completes "" watch -- torch
elif [[ $shell == fish ]]; then
  mkdir runs && touch runs/a-run COMPLETED
  completes "--format=html" diff --format=h
  completes "runs/a-run" report runs/
  completes "COMPLETED" watch -- some-job COM
else
  completes "--format=html" diff --format=h
  completes "FILES" report runs/
  completes "COMMAND torch" watch -- torch
fi
if [[ $has_catalogue == ON ]]; then
  completes "loss-gradient-on-head-device loss-on-unwrapped-module loss-on-unwrapped-module-pipeline" run lo
  completes "loss-on-unwrapped-module/only-matrices-reduced" show loss-on-unwrapped-module/on
  completes "cpu cuda" run --device c
else
  case $shell in
    zsh) files=FILES ;;
    fish) files=lockstep ;;  # the link in this folder
    *) files= ;;
  esac
  completes "$files" run lo
fi
