#!/usr/bin/env bash
# The workflows of GitHub, the action and the job of GitLab meet their schemas, which need no network; and a
# planted fault of each is found. The checker is the one that ci/bootstrap installed.
#
#   tests/ci/workflows_test.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

checker=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep/lint/bin/check-jsonschema
[[ -x $checker ]] || { echo "skipped: there is no $checker; ci/bootstrap installs it without LOCKSTEP_PYTHON"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
status=0
complain() { echo "$*" >&2; status=1; }

meets() {  # SCHEMA FILE
  local transform=()
  [[ $1 != gitlab-ci ]] || transform=(--data-transform gitlab-ci)
  "$checker" --quiet --builtin-schema "vendor.$1" "${transform[@]}" "$2"
}

check() {  # SCHEMA FAULT FILE: the fault is a command of sed
  # A job of GitLab whose name begins with a dot may be anything.
  sed 's/^\.lockstep:/lockstep:/' "$3" >"$folder/file.yml"
  meets "$1" "$folder/file.yml" || complain "$3 does not meet the schema $1; see above."
  sed "$2" "$folder/file.yml" >"$folder/planted.yml"
  ! cmp -s "$folder/file.yml" "$folder/planted.yml" || complain "$3: the fault '$2' could not be planted"
  ! meets "$1" "$folder/planted.yml" >/dev/null || complain "$3: the planted fault '$2' is not found"
}

for file in .github/workflows/*.yml ci/github/*.yml; do
  case $file in
    */action.yml) check github-actions 's/using: composite/using: composites/' "$file" ;;
    *) check github-workflows 's/runs-on:/run-on:/' "$file" ;;
  esac
done
for file in ci/gitlab/*.yml; do check gitlab-ci 's/when: always/when: alway/' "$file"; done
exit $status
