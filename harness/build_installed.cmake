# `cmake --install` after a build of the program alone, as ci/demo makes it, builds the rest first:
# else it stops in the middle of a prefix. CMake runs this before all other install rules, as it is
# included before them. After a whole build the manual is the newest, and nothing is built.
install(CODE "
  if(\"\${CMAKE_INSTALL_LOCAL_ONLY}\" STREQUAL \"\" AND
     \"${PROJECT_BINARY_DIR}/bin/lockstep\" IS_NEWER_THAN \"${PROJECT_BINARY_DIR}/manual.stamp\")
    message(STATUS \"Building all that is installed\")
    execute_process(COMMAND \"${CMAKE_COMMAND}\" --build \"${PROJECT_BINARY_DIR}\" --target lockstep_installed
                    RESULT_VARIABLE failure)
    if(failure)
      message(FATAL_ERROR \"Nothing was installed, because the build failed; its message is above.\")
    endif()
  endif()" ALL_COMPONENTS)
