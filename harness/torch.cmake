# Finds the torch of a Python interpreter and creates the imported target lockstep::torch from its
# CPU libraries. Used by the build of Lockstep and, installed, by find_package(lockstep). The
# wheel's own TorchConfig.cmake is not used: it demands a CUDA toolkit and links libtorch_cuda,
# which doubles the start time of every rank.

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

# Of the wheel of the catalogue, which is used with the torch of another machine.
set(LOCKSTEP_TORCH_AT_RUN_TIME "" CACHE STRING
    "Folder of torch's libraries relative to programs and modules; empty: that of LOCKSTEP_PYTHON")

# Sets LOCKSTEP_TORCH_ROOT and LOCKSTEP_TORCH_VERSION to those of the interpreter. Sets `complaint`
# to a sentence if that torch cannot be built against, otherwise to an empty string.
function(lockstep_find_torch complaint)
  set(${complaint} "" PARENT_SCOPE)
  execute_process(
    COMMAND ${LOCKSTEP_PYTHON} ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/find_torch.py
            ${LOCKSTEP_TORCH_MINIMUM}
    OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE
    ERROR_VARIABLE sentence ERROR_STRIP_TRAILING_WHITESPACE
    RESULT_VARIABLE status)
  if(NOT status MATCHES "^[0-9]+$")
    set(${complaint} "There is no Python interpreter at ${LOCKSTEP_PYTHON} (${status})."
        PARENT_SCOPE)
  elseif(NOT status EQUAL 0)
    set(${complaint} "${sentence}" PARENT_SCOPE)
  else()
    string(REPLACE "\n" ";" found "${found}")
    list(GET found 0 root)
    list(GET found 1 version)
    set(LOCKSTEP_TORCH_ROOT ${root} PARENT_SCOPE)
    set(LOCKSTEP_TORCH_VERSION ${version} PARENT_SCOPE)
  endif()
endfunction()

# Creates lockstep::torch from the result of lockstep_find_torch. It is imported, so installed
# libraries only name it, and their users find torch again.
function(lockstep_add_torch)
  message(STATUS "torch ${LOCKSTEP_TORCH_VERSION} in ${LOCKSTEP_TORCH_ROOT}")
  add_library(lockstep::torch INTERFACE IMPORTED)
  target_include_directories(lockstep::torch SYSTEM INTERFACE
    ${LOCKSTEP_TORCH_ROOT}/include ${LOCKSTEP_TORCH_ROOT}/include/torch/csrc/api/include)
  # The wheel contains fmt's headers, of another version than the system's library, so users compile
  # them in.
  target_compile_definitions(lockstep::torch INTERFACE
    USE_C10D_GLOO AT_PER_OPERATOR_HEADERS FMT_HEADER_ONLY)
  target_link_libraries(lockstep::torch INTERFACE
    ${LOCKSTEP_TORCH_ROOT}/lib/libtorch_cpu.so ${LOCKSTEP_TORCH_ROOT}/lib/libc10.so)
  if(NOT LOCKSTEP_TORCH_AT_RUN_TIME)
    target_link_options(lockstep::torch INTERFACE -Wl,-rpath,${LOCKSTEP_TORCH_ROOT}/lib)
  endif()
endfunction()

# Torch headers that most sources include, parsed once for all targets: half of their compile time.
# GCC instantiates anew, in each source, the templates that the inline functions of these headers use:
# a header that few sources include costs more than it saves.
# One header serves all, so programs are compiled as position-independent, like libraries.
function(lockstep_precompile_torch target)
  if(NOT TARGET lockstep_torch_precompiled)
    file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/precompiled.cc CONTENT "")
    add_library(lockstep_torch_precompiled OBJECT ${PROJECT_BINARY_DIR}/precompiled.cc)
    target_compile_features(lockstep_torch_precompiled PRIVATE cxx_std_20)
    target_link_libraries(lockstep_torch_precompiled PRIVATE lockstep::torch fmt::fmt
                          lockstep_warnings)
    target_precompile_headers(lockstep_torch_precompiled PRIVATE
      <ATen/TensorOperators.h> <ATen/core/Tensor.h> <ATen/core/grad_mode.h>
      <c10/util/Exception.h>
      <algorithm> <filesystem> <functional> <map> <memory> <optional> <string> <vector>)
  endif()
  get_target_property(type ${target} TYPE)
  if(type STREQUAL EXECUTABLE)
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
  target_precompile_headers(${target} REUSE_FROM lockstep_torch_precompiled)
  # Without it ccache stores nothing that GCC compiled with a precompiled header.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
endfunction()
