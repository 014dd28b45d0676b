#!/usr/bin/env bash
# Runs a command that begins with a seed, unless LOCKSTEP_SOAK_FROM asks for a later one.
#
#   tests/from_seed.sh SEED COMMAND...
set -euo pipefail

seed=$1
shift
if [[ $seed -lt ${LOCKSTEP_SOAK_FROM:-0} ]]; then
  echo "skipped: it begins with seed $seed, and LOCKSTEP_SOAK_FROM is $LOCKSTEP_SOAK_FROM"
  exit 77
fi
exec "$@"
