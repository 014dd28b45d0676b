#!/usr/bin/env bash
# Runs every hanging variant repeatedly, several at a time, with twice as many busy loops as cores.
# Each cell must be as expected, so a lack of time makes none undecided. Each repetition must have
# the findings of the first. The exit status is 1 otherwise.
#
#   tests/scenarios/hangs_under_load.sh LOCKSTEP [REPETITIONS]      (default: 20)
set -euo pipefail

[ $# -ge 1 ] || { echo "usage: hangs_under_load.sh LOCKSTEP [REPETITIONS]" >&2; exit 64; }
lockstep=$1
repetitions=${2:-20}
folder=$(mktemp -d)
loops=()
trap 'kill "${loops[@]}" 2>/dev/null; rm -rf "$folder"' EXIT
for ((i = 0; i < 2 * $(nproc); i++)); do
  while :; do :; done &
  loops+=($!)
done

hangs=(
  none-gradient-skipped-on-some-ranks/skipped-where-none
  uneven-batches-hang/own-batches
  uneven-batches-hang/barrier-before-leaving
  collective-order-differs-other-shapes/logged-where-remarkable
  collective-order-differs-other-shapes/barrier-before-log
  collective-order-differs-other-shapes/logged-behind-gradients
  early-stop-decided-per-rank/decided-locally
  early-stop-decided-per-rank/barrier-before-break
  early-stop-decided-per-rank/broadcast-behind-break
  step-skipped-on-one-rank/skipped-locally
  missing-gradients-skipped-in-reduction/skip-missing
  tiles-counted-by-each-rank/zero-3-own-tiles
  tiles-counted-by-each-rank/zero-3-maximum-over-ranks
)
status=0
"$lockstep" run "${hangs[@]}" --repeat "$repetitions" --jobs 6 --out "$folder/run" >"$folder/report" ||
  { status=$?; grep -E 'FAILED|NOT FOUND|UNDECIDED' "$folder/report" | head -20; }
tail -n 2 "$folder/report"
exit $status
