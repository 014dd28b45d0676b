# What compiler and linker do for programs that read files of strangers (SECURITY.md). Options of all
# targets, so no new one is without them, and those that share a precompiled header have the same ones.
# tests/package/hardening_test.py reads them from the files that were built.
#
# A sanitizer replaces the checked functions of the C library, and finds more; a debug build is not what
# users run, and _FORTIFY_SOURCE needs an optimizer.
if(LOCKSTEP_SANITIZE OR NOT LOCKSTEP_HARDENING)
  return()
endif()
set(lockstep_optimised $<CONFIG:Release,RelWithDebInfo,MinSizeRel>)

# Level 3 also checks buffers whose size is known only at run time; older compilers warn about it.
# Without -U, a level that a distribution gave its compiler is defined twice.
set(lockstep_fortify 2)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12 OR
   CMAKE_CXX_COMPILER_ID STREQUAL Clang AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 15)
  set(lockstep_fortify 3)
endif()
add_compile_options(-fstack-protector-strong
  "$<${lockstep_optimised}:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=${lockstep_fortify}>")
# Landing pads of indirect branches, and functions that a shadow stack may follow. The linker marks a
# file with them only if all its objects have them, the C library's start files included.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  add_compile_options(-fcf-protection)
endif()
# Tables of functions are filled at the start and read-only from then on. This binds only the file that
# has it: torch's libraries are still bound by LD_BIND_NOW (harness/cli/start_variables.h).
add_link_options(-Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
# All objects are position-independent (CMAKE_POSITION_INDEPENDENT_CODE); a compiler may still link a
# program to a fixed address. CMake's own check of this would do so with those that are compiled with
# -fPIC for the sake of a precompiled header (lockstep_precompile_torch).
add_link_options($<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-pie>)
