#!/usr/bin/env bash
# Mistakes and healthy trainings by torch and real trainers, and what the report says of them:
# planted_causes.sh LOCKSTEP SOURCES mistakes [NAME...] | healthy COUNT [SEED]
#
# Installs the trainers below the user's cache (5 GB), unless they are there. Exits with 77 if they cannot be
# installed.
set -uo pipefail
lockstep=$1 sources=$2
source "$sources/tests/watch/environments.sh"
environment=$(trainers_environment) || exit 77
"$environment/bin/python" -m pip list 2>/dev/null | grep -Ei '^(torch|transformers|accelerate|lightning|deepspeed) '

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
PYTHONPATH=$(dirname "$lockstep")/../share/lockstep/python "$environment/bin/python" -W ignore \
  "$sources/tests/watch/planted_causes.py" "$lockstep" "$folder" "${@:3}"
