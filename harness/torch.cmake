# Finds the torch of a Python interpreter and makes the imported target lockstep::torch of its CPU
# libraries. The wheel's own TorchConfig.cmake is not used: it demands a CUDA toolkit and links
# libtorch_cuda, which doubles the start of every rank.

# ci/bootstrap reads these two lines.
set(LOCKSTEP_TORCH_MINIMUM 2.11)
set(LOCKSTEP_TORCH_PINNED 2.11.0)

if(NOT "$ENV{XDG_CACHE_HOME}" STREQUAL "")
  set(lockstep_cache $ENV{XDG_CACHE_HOME})
else()
  set(lockstep_cache $ENV{HOME}/.cache)
endif()
set(LOCKSTEP_PYTHON "$ENV{LOCKSTEP_PYTHON}" CACHE FILEPATH
    "Python interpreter with torch ${LOCKSTEP_TORCH_MINIMUM} or newer; empty: ci/bootstrap's")
if(LOCKSTEP_PYTHON STREQUAL "")
  set(LOCKSTEP_PYTHON ${lockstep_cache}/lockstep/venv-${LOCKSTEP_TORCH_PINNED}/bin/python
      CACHE FILEPATH "" FORCE)
endif()

set(lockstep_torch_help "Run ci/bootstrap, which installs torch ${LOCKSTEP_TORCH_PINNED}, or set \
LOCKSTEP_PYTHON to a Python whose torch is ${LOCKSTEP_TORCH_MINIMUM} or newer.")
execute_process(
  COMMAND ${LOCKSTEP_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/find_torch.py ${LOCKSTEP_TORCH_MINIMUM}
  OUTPUT_VARIABLE lockstep_torch OUTPUT_STRIP_TRAILING_WHITESPACE
  ERROR_VARIABLE lockstep_sentence ERROR_STRIP_TRAILING_WHITESPACE
  RESULT_VARIABLE lockstep_status)
if(NOT lockstep_status MATCHES "^[0-9]+$")
  set(lockstep_sentence "There is no Python interpreter at ${LOCKSTEP_PYTHON} (${lockstep_status}).")
endif()
if(NOT lockstep_status EQUAL 0)
  message(FATAL_ERROR "${lockstep_sentence} ${lockstep_torch_help}")
endif()
string(REPLACE "\n" ";" lockstep_torch "${lockstep_torch}")
list(GET lockstep_torch 0 lockstep_torch_root)
list(GET lockstep_torch 1 LOCKSTEP_TORCH_VERSION)
message(STATUS "torch ${LOCKSTEP_TORCH_VERSION} in ${lockstep_torch_root}")

add_library(lockstep_torch INTERFACE)
add_library(lockstep::torch ALIAS lockstep_torch)
target_include_directories(lockstep_torch SYSTEM INTERFACE
  ${lockstep_torch_root}/include ${lockstep_torch_root}/include/torch/csrc/api/include)
# The wheel brings fmt's headers along, of another version than the system's library: whoever sees
# them compiles them in.
target_compile_definitions(lockstep_torch INTERFACE
  USE_C10D_GLOO AT_PER_OPERATOR_HEADERS FMT_HEADER_ONLY)
target_link_libraries(lockstep_torch INTERFACE
  ${lockstep_torch_root}/lib/libtorch_cpu.so ${lockstep_torch_root}/lib/libc10.so)
target_link_options(lockstep_torch INTERFACE -Wl,-rpath,${lockstep_torch_root}/lib)
