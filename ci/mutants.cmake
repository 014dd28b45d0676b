# Included by the project in the build of ci/mutants.

# The sources of LOCKSTEP_MUTATED are compiled one by one: a mutant is in one of them.
cmake_language(DEFER CALL set_target_properties ${LOCKSTEP_MUTATED} PROPERTIES UNITY_BUILD OFF)

# The catalogue takes longer than all the rest, and no test of mutants starts it.
function(add_dependencies target)
  list(REMOVE_ITEM ARGN lockstep_catalogue)
  if(ARGN)
    _add_dependencies(${target} ${ARGN})
  endif()
endfunction()
