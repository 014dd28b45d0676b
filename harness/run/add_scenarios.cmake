# lockstep_add_scenarios(NAME FILE...): a program with the command line of lockstep and the
# scenarios of the listed files. Files are relative to the current folder, without .cc. Each defines
# the function `lockstep::Scenario <file name>()`. The registry is generated from this list. A file
# that is only on disk or only on the list is an error. Build folders do not count.
function(lockstep_add_scenarios program)
  file(GLOB_RECURSE on_disk RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS
       ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  file(RELATIVE_PATH build_folder ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_BINARY_DIR})
  list(FILTER on_disk EXCLUDE REGEX "^${build_folder}/")
  set(listed ${ARGN})
  list(TRANSFORM listed APPEND .cc)
  foreach(source ${on_disk})
    if(NOT source IN_LIST listed)
      string(REGEX REPLACE "[.]cc$" "" name ${source})
      message(FATAL_ERROR "${CMAKE_CURRENT_SOURCE_DIR}/CMakeLists.txt: ${source} is not listed: "
              "add ${name}")
    endif()
  endforeach()
  foreach(source ${listed})
    if(NOT source IN_LIST on_disk)
      message(FATAL_ERROR "${CMAKE_CURRENT_SOURCE_DIR}/CMakeLists.txt: ${source} is listed, and "
              "there is no such file")
    endif()
  endforeach()

  set(LOCKSTEP_DECLARATIONS "")
  set(LOCKSTEP_ENTRIES "")
  foreach(source ${listed})
    get_filename_component(name ${source} NAME_WE)
    if(NOT name MATCHES "^[a-z][a-z0-9_]*$")
      message(FATAL_ERROR "${CMAKE_CURRENT_SOURCE_DIR}/${source}: the name of a scenario's file is "
              "the name of its function: lower-case letters, digits and _.")
    endif()
    file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/${source})
    string(APPEND LOCKSTEP_DECLARATIONS "Scenario ${name}();\n")
    string(REPLACE "_" "-" id ${name})
    string(APPEND LOCKSTEP_ENTRIES "    add(${name}(), \"${id}\", \"${path}\");\n")
  endforeach()
  set(registry ${CMAKE_CURRENT_BINARY_DIR}/${program}_registry.cc)
  configure_file(${CMAKE_CURRENT_FUNCTION_LIST_DIR}/registry.cc.in ${registry} @ONLY)

  add_executable(${program} ${listed} ${registry} ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/catalogue_main.cc)
  target_link_libraries(${program} PRIVATE lockstep::run)
  get_target_property(torch lockstep::torch INTERFACE_LINK_LIBRARIES)
  list(GET torch 0 torch)
  set(use_link_path ON)
  if(LOCKSTEP_TORCH_AT_RUN_TIME)
    get_filename_component(torch ${torch} NAME)
    string(PREPEND torch ${LOCKSTEP_TORCH_AT_RUN_TIME}/)
    set(use_link_path OFF)
  endif()
  target_compile_definitions(${program} PRIVATE LOCKSTEP_TORCH_LIBRARY="${torch}")
  # CMake would pad the rpath of an installed program with ':', which is the working folder.
  # Scenarios use the same names for their parts, so they are compiled one by one.
  set_target_properties(${program} PROPERTIES BUILD_WITH_INSTALL_RPATH ON
                        INSTALL_RPATH_USE_LINK_PATH ${use_link_path} UNITY_BUILD OFF)
endfunction()
