# Shared by the package tests: a temporary working folder, and checks of commands. To be sourced.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export CMAKE_GENERATOR=Ninja CMAKE_BUILD_TYPE=Release

fail() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

run() {  # WANTED STATUS, COMMAND...
  local wanted=$1 status=0
  shift
  "$@" >"$folder/output" 2>&1 || status=$?
  [[ $status -eq $wanted ]] && return
  cat "$folder/output" >&2
  fail "wanted status $wanted, got $status, of: $*"
}

says() {  # TEXT, with any line breaks in it
  [[ $(tr -s '\n ' ' ' <"$folder/output") == *"$1"* ]] && return
  cat "$folder/output" >&2
  fail "wanted: $1"
}

# Configures `project` with the installation in `prefix`.
configure() {  # BUILD FOLDER, OPTIONS of CMake
  "$cmake" -S "$project" -B "$1" -DCMAKE_PREFIX_PATH="$folder/prefix" "${@:2}"
}
