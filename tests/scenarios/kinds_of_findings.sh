#!/usr/bin/env bash
# Runs the whole catalogue. The pages of docs/findings must name the scenarios that show each kind, and
# docs/detection.md what sees each fault.
#
#   tests/scenarios/kinds_of_findings.sh LOCKSTEP
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$1" run --ranks 2 --out "$folder/run" -q
"$(dirname "$0")/../../ci/finding-scenarios" "$folder/run" "$1" --check
"$(dirname "$0")/../../ci/detection" "$folder/run" --check
