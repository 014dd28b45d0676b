# Toolchain of the wheels: static libraries of their own, from the folder LOCKSTEP_LIBRARIES, so that no package
# of the machine is needed at run time. ci/wheel sets that variable, and LOCKSTEP_ZIG to the path of the program
# `zig`, which links with an old C library: the result runs on systems with glibc 2.28 (2018) and newer. Without
# LOCKSTEP_ZIG the compiler is the machine's GCC: torch's C++ functions need the C++ library of GCC, and Zig has
# another one.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
if(NOT "$ENV{LOCKSTEP_ZIG}" STREQUAL "")
  foreach(language C CXX)
    set(command_C cc)
    set(command_CXX c++)
    set(CMAKE_${language}_COMPILER $ENV{LOCKSTEP_ZIG} ${command_${language}} -target x86_64-linux-gnu.2.28)
  endforeach()
endif()
set(CMAKE_EXE_LINKER_FLAGS_INIT "-s -Wl,--as-needed")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-s -Wl,--as-needed")
set(CMAKE_MODULE_LINKER_FLAGS_INIT "-s -Wl,--as-needed")
# libarchive is static and calls zlib.
set(CMAKE_CXX_STANDARD_LIBRARIES_INIT $ENV{LOCKSTEP_LIBRARIES}/lib/libz.a)
set(LOCKSTEP_LICENSES $ENV{LOCKSTEP_LIBRARIES}/licenses)
set(LOCKSTEP_SBOM $ENV{LOCKSTEP_SBOM})

# The machine's own libraries are not linked.
set(CMAKE_FIND_ROOT_PATH $ENV{LOCKSTEP_LIBRARIES})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
# No program of the machine: a file of the libraries' packages.
set(LOCKSTEP_CHART_JS $ENV{LOCKSTEP_LIBRARIES}/share/javascript/chart.js/chart.min.js CACHE FILEPATH "Chart.js")
