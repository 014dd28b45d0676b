# lockstep_scenario_program(NAME FILE...): a program with the command line of lockstep and the
# scenarios of the files named (without .cc, below the current folder). The registry is generated from
# this list; a file that is on disk and not on the list, or the other way round, is an error.
function(lockstep_scenario_program program)
  file(GLOB_RECURSE on_disk RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS
       ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  set(listed ${ARGN})
  list(TRANSFORM listed APPEND .cc)
  list(SORT on_disk)
  set(sorted ${listed})
  list(SORT sorted)
  if(NOT on_disk STREQUAL sorted)
    message(FATAL_ERROR "${CMAKE_CURRENT_SOURCE_DIR}: CMakeLists.txt lists '${sorted}', the folder "
            "holds '${on_disk}'. Make them the same.")
  endif()

  set(LOCKSTEP_DECLARATIONS "")
  set(LOCKSTEP_ENTRIES "")
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  foreach(source ${listed})
    get_filename_component(name ${source} NAME_WE)
    string(APPEND LOCKSTEP_DECLARATIONS "Scenario ${name}();\n")
    string(APPEND LOCKSTEP_ENTRIES "    add(${name}(), \"${folder}/${source}\");\n")
  endforeach()
  set(registry ${CMAKE_CURRENT_BINARY_DIR}/${program}_registry.cc)
  configure_file(${PROJECT_SOURCE_DIR}/harness/cli/registry.cc.in ${registry} @ONLY)

  add_executable(${program} ${listed} ${registry} ${PROJECT_SOURCE_DIR}/harness/cli/main.cc)
  target_link_libraries(${program} PRIVATE lockstep::cli lockstep_warnings)
endfunction()
