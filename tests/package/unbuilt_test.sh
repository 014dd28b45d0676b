#!/usr/bin/env bash
# `cmake --install` after a build of the program alone builds the rest first, or installs nothing:
# with harness/build_installed.cmake in a project whose parts take no time.
#
#   unbuilt_test.sh CMAKE SOURCE
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/package_checks.sh"
cmake=$1
source=$2

# A project with a program and a manual, which `manual_command` writes.
project() {
  mkdir "$1"
  cat >"$1/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(parts NONE)
include($source/harness/build_installed.cmake)
add_custom_command(OUTPUT \${PROJECT_BINARY_DIR}/bin/lockstep
                   COMMAND \${CMAKE_COMMAND} -E make_directory \${PROJECT_BINARY_DIR}/bin
                   COMMAND \${CMAKE_COMMAND} -E touch \${PROJECT_BINARY_DIR}/bin/lockstep)
add_custom_target(lockstep DEPENDS \${PROJECT_BINARY_DIR}/bin/lockstep)
add_custom_command(OUTPUT \${PROJECT_BINARY_DIR}/manual.stamp COMMAND $2
                   COMMAND \${CMAKE_COMMAND} -E touch \${PROJECT_BINARY_DIR}/manual.stamp
                   DEPENDS \${PROJECT_BINARY_DIR}/bin/lockstep)
add_custom_target(lockstep_installed DEPENDS \${PROJECT_BINARY_DIR}/manual.stamp)
install(PROGRAMS \${PROJECT_BINARY_DIR}/bin/lockstep DESTINATION bin)
install(FILES \${PROJECT_BINARY_DIR}/manual.stamp DESTINATION share)
END
  run 0 "$cmake" -G Ninja -S "$1" -B "$1/build"
}


project right 'true'
run 0 "$cmake" --build right/build --target lockstep
run 0 "$cmake" --install right/build --prefix right/prefix
says "Building all that is installed"
[[ -e right/prefix/bin/lockstep && -e right/prefix/share/manual.stamp ]]
run 0 "$cmake" --install right/build --prefix right/again
[[ $(<"$folder/output") != *"Building all"* ]]

project wrong 'false'
run 1 "$cmake" --install wrong/build --prefix wrong/prefix
says "Nothing was installed, because the build failed"
[[ ! -e wrong/prefix ]]
